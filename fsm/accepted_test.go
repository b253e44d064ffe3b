package fsm

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

// What the log accepts, a snapshot must be able to hold: a value that a command
// may carry and Check refuses makes every later snapshot unreadable. Each field
// of each sample takes values from the edges, alone.
func TestAcceptedValuesReadBack(t *testing.T) {
	states := []*State{busy(t).state, func() *State { r := newRig(t); r.session("a"); r.session("b"); return r.state }()}
	accepted := 0
	for i, c := range samples(t) {
		for place := 0; ; place++ { // as many as the sample has fields
			alone := reflect.New(reflect.TypeOf(c)).Elem()
			alone.Set(reflect.ValueOf(samples(t)[i])) // a copy of its own: slices are shared otherwise
			left := place
			field := nthField(alone, &left)
			if !field.IsValid() {
				break
			}
			for _, odd := range edges(field) {
				field.Set(odd)
				data, err := Encode(Header{Time: 1, WallMillis: 2}, alone.Interface().(Command))
				if err != nil {
					continue // refused before it gets into the log
				}
				for _, s := range states {
					next := &State{now: s.now} // tables are immutable
					if res := next.Apply(Entry{Index: next.View().Index() + 1, Term: 9, Data: data}); res.Err() != nil {
						continue
					}
					accepted++
					if err := next.View().Check(); err != nil {
						t.Errorf("accepted-reads-back: %T with %v in field %d: %v", c, odd, place, err)
					}
				}
			}
		}
	}
	t.Logf("%d odd commands were accepted", accepted)
	if accepted < 400 {
		t.Errorf("only %d odd commands were accepted: the test attacks nothing", accepted)
	}
}

// nthField returns the field number *n of v and what is below it that holds text or a
// number, the zero Value if it has fewer.
func nthField(v reflect.Value, n *int) reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if f := nthField(v.Field(i), n); f.IsValid() {
				return f
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			if f := nthField(v.Index(i), n); f.IsValid() {
				return f
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return nthField(v.Elem(), n)
		}
	case reflect.String, reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		if *n == 0 {
			return v
		}
		*n--
	}
	return reflect.Value{}
}

// edges are odd values of a field's type.
func edges(field reflect.Value) (out []reflect.Value) {
	var raw []any
	if field.Kind() == reflect.String {
		raw = []any{"", "127.0.0.1:0", "h:http", "a b/@c", "\x00", "é\xff", strings.Repeat("x", 64), strings.Repeat("x", 255), strings.Repeat("x", 1024)}
	} else {
		raw = []any{int8(0), int8(1), int8(-1), int64(math.MaxInt64), int64(math.MinInt64), int64(1 << 40)}
	}
	for _, r := range raw {
		out = append(out, reflect.ValueOf(r).Convert(field.Type()))
	}
	return out
}
