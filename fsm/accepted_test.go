package fsm

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

// What the log accepts, a snapshot must be able to hold: a value that a command
// may carry and Check refuses makes every later snapshot unreadable. Each entry of
// busy's log is applied to the state before it, and each sample to the state after
// the last one, with each field in turn set to odd values.
func TestAcceptedValuesReadBack(t *testing.T) {
	attempt := oddCommands{t: t, accepted: make(map[Kind]int)}
	attempt.from(New(), 1, Header{Time: 1, WallMillis: 2}, founding())
	r := newRig(t)
	for _, e := range busy(t).log {
		h, c, err := Decode(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		attempt.from(r.state, e.Index, h, c)
		r.raw(e.Data)
	}
	for _, c := range samples(t) {
		attempt.from(r.state, r.index+1, Header{Time: 1, WallMillis: 2}, c)
	}
	if kinds := len(attempt.accepted); kinds < 35 { // the others hold only IDs and tokens
		t.Errorf("odd values were accepted in %d of %d kinds of commands: the test attacks too little", kinds, len(verbs))
	}
}

// oddCommands applies commands with odd values and counts those that were accepted.
type oddCommands struct {
	t        *testing.T
	accepted map[Kind]int
}

// from applies variants of a command, each to the same state.
func (o oddCommands) from(s *State, index uint64, h Header, c Command) {
	data, err := Encode(h, c)
	if err != nil {
		o.t.Fatalf("encode %T: %v", c, err)
	}
	for number := 0; ; number++ {
		_, field := o.copied(data, number)
		if !field.IsValid() {
			return // c has no more fields
		}
		for _, odd := range edges(field) {
			variant, field := o.copied(data, number)
			field.Set(odd)
			data, err := Encode(h, variant.Interface().(Command))
			if err != nil {
				continue // refused before it gets into the log
			}
			next := &State{now: s.now} // tables are immutable
			if res := next.Apply(Entry{Index: index, Term: 9, Data: data}); res.Err() != nil {
				continue
			}
			o.accepted[KindOf(c)]++
			if err := next.View().Check(); err != nil {
				o.t.Errorf("accepted-reads-back: %T with %v in field %d: %v", c, odd, number, err)
			}
		}
	}
}

// copied decodes a command, so that its slices are its own, and finds its field of
// that number.
func (o oddCommands) copied(data []byte, number int) (command, field reflect.Value) {
	_, c, err := Decode(data)
	if err != nil {
		o.t.Fatal(err)
	}
	command = reflect.New(reflect.TypeOf(c)).Elem()
	command.Set(reflect.ValueOf(c))
	return command, nthField(command, &number)
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
		raw = []any{"", "127.0.0.1:0", "h:http", "a b/@c", "\x00", "é\xff", strings.Repeat("x", 64), strings.Repeat("x", 255),
			strings.Repeat("x", 1024)}
	} else {
		raw = []any{int8(0), int8(1), int8(-1), int64(math.MaxInt64), int64(math.MinInt64), int64(1 << 40)}
	}
	for _, r := range raw {
		out = append(out, reflect.ValueOf(r).Convert(field.Type()))
	}
	return out
}
