package lease

import (
	"context"
	"fmt"
	"iter"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// Put writes a value if the condition holds when it is written, and returns its new
// version. A condition that does not hold is fsm.Fenced. request is the caller's own
// ID: the same write again under it is made once. Another write is another, also under
// the same ID: a restarted program may count from one again.
func (s *Service) Put(ctx context.Context, key string, data []byte, when leases.Condition,
	request string) (fencing.Token, error) {
	c := leases.PutValue{Key: key, Data: data, If: when}
	if err := valid(c); err != nil {
		return 0, err
	}
	if request != "" {
		request = requestID("put", key, request, fmt.Sprint(when), string(data))
	}
	res, err := s.o.Do.Do(ctx, request, c)
	if err != nil {
		return 0, err
	}
	if err := res.Err(); err != nil {
		return 0, err
	}
	var stored leases.Value
	err = res.Decode(&stored)
	return stored.Version, err
}

// Remove deletes a value if the condition holds.
func (s *Service) Remove(ctx context.Context, key string, when leases.Condition) error {
	return s.do(ctx, leases.DeleteValue{Key: key, If: when})
}

// Value reads a value. Its data must not be changed.
func (s *Service) Value(ctx context.Context, key string, r Reading) (leases.Value, error) {
	v, err := s.view(ctx, r)
	if err != nil {
		return leases.Value{}, err
	}
	value, ok := v.Value(key)
	if !ok {
		return leases.Value{}, notFound("%s does not exist", key)
	}
	return value, nil
}

// Values returns the values whose keys begin with prefix and come after another key, in
// order. They are read as the caller goes on.
func (s *Service) Values(ctx context.Context, prefix, after string, r Reading) (iter.Seq[leases.Value], error) {
	v, err := s.view(ctx, r)
	if err != nil {
		return nil, err
	}
	return v.ValuesAfter(prefix, after), nil
}
