package nftables

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// attributeTable is the table's name in messages about every kind of object:
// NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, NFTA_SET_TABLE,
// NFTA_SET_ELEM_LIST_TABLE, NFTA_OBJ_TABLE, NFTA_FLOWTABLE_TABLE.
const attributeTable = 1

// headerLength is that of the nfnetlink header before the attributes.
const headerLength = 4

// kindOf returns what a message is about, one of the kernel's NFT_MSG
// constants; not ok if it is not about nf_tables.
func kindOf(m netlink.Message) (kind int, ok bool) {
	return int(m.Header.Type & 0xff), m.Header.Type>>8 == unix.NFNL_SUBSYS_NFTABLES && len(m.Data) >= headerLength
}

// each calls do for each attribute of a message about nf_tables.
func each(m netlink.Message, do func(*netlink.AttributeDecoder)) error {
	if _, ok := kindOf(m); !ok {
		return fmt.Errorf("netlink message of type %#x and %d bytes is not about nf_tables", uint16(m.Header.Type),
			len(m.Data))
	}
	return eachOf(m.Data[headerLength:], do)
}

func eachOf(b []byte, do func(*netlink.AttributeDecoder)) error {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return fmt.Errorf("decode netlink attributes: %w", err)
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		do(d)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("decode netlink attributes: %w", err)
	}
	return nil
}

// within calls do for each attribute inside the one that d is at.
func within(d *netlink.AttributeDecoder, do func(*netlink.AttributeDecoder)) {
	d.Do(func(b []byte) error { return eachOf(b, do) })
}

// tableOf returns the table that a message is about.
func tableOf(m netlink.Message) (name string, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		if d.Type() == attributeTable {
			name = d.String()
		}
	})
	return name, err
}

func parseTable(m netlink.Message) (flags uint32, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		if d.Type() == unix.NFTA_TABLE_FLAGS {
			flags = d.Uint32()
		}
	})
	return flags, err
}

func parseChain(m netlink.Message) (c chain, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_CHAIN_NAME:
			c.name = d.String()
		case unix.NFTA_CHAIN_TYPE:
			c.kind = d.String()
		case unix.NFTA_CHAIN_POLICY:
			c.policy = d.Uint32()
		case unix.NFTA_CHAIN_HOOK:
			within(d, func(d *netlink.AttributeDecoder) {
				switch d.Type() {
				case unix.NFTA_HOOK_HOOKNUM:
					c.hook = d.Uint32()
				case unix.NFTA_HOOK_PRIORITY:
					c.priority = int32(d.Uint32())
				}
			})
		}
	})
	return c, err
}

func parseSet(m netlink.Message) (s set, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_SET_NAME:
			s.name = d.String()
		case unix.NFTA_SET_FLAGS:
			s.flags = d.Uint32()
		case unix.NFTA_SET_KEY_TYPE:
			s.keyType = d.Uint32()
		case unix.NFTA_SET_KEY_LEN:
			s.keyLength = d.Uint32()
		case unix.NFTA_SET_TIMEOUT:
			s.life = d.Uint64()
		case unix.NFTA_SET_DESC:
			within(d, func(d *netlink.AttributeDecoder) {
				if d.Type() == unix.NFTA_SET_DESC_SIZE {
					s.size = d.Uint32()
				}
			})
		}
	})
	return s, err
}

func parseRule(m netlink.Message) (r rule, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_RULE_CHAIN:
			r.chain = d.String()
		case unix.NFTA_RULE_EXPRESSIONS:
			within(d, func(d *netlink.AttributeDecoder) {
				d.Do(func(b []byte) error {
					e, err := parseExpression(b)
					r.expressions = append(r.expressions, e)
					return err
				})
			})
		}
	})
	return r, err
}

// parseExpression returns nil for an expression of a kind that no rule of ours
// has.
func parseExpression(b []byte) (expr.Any, error) {
	var name string
	var data []byte
	err := eachOf(b, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_EXPR_NAME:
			name = d.String()
		case unix.NFTA_EXPR_DATA:
			data = d.Bytes()
		}
	})
	if err != nil {
		return nil, err
	}
	var e expr.Any
	switch name {
	case "meta":
		e = &expr.Meta{}
	case "cmp":
		e = &expr.Cmp{}
	case "payload":
		e = &expr.Payload{}
	case "exthdr":
		e = &expr.Exthdr{}
	case "lookup":
		e = &expr.Lookup{}
	case "dynset":
		e = &expr.Dynset{}
	case "immediate":
		e = &expr.Verdict{}
	default:
		return nil, nil
	}
	if err := expr.Unmarshal(unix.NFPROTO_INET, data, e); err != nil {
		return nil, fmt.Errorf("decode expression %s: %w", name, err)
	}
	return e, nil
}

func parseElements(m netlink.Message) (all []element, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		if d.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		within(d, func(d *netlink.AttributeDecoder) {
			var e element
			within(d, func(d *netlink.AttributeDecoder) { e.parse(d) })
			all = append(all, e)
		})
	})
	return all, err
}

func (e *element) parse(d *netlink.AttributeDecoder) {
	switch d.Type() {
	case unix.NFTA_SET_ELEM_KEY:
		within(d, func(d *netlink.AttributeDecoder) {
			if d.Type() == unix.NFTA_DATA_VALUE {
				e.key = d.Bytes()
			}
		})
	case unix.NFTA_SET_ELEM_TIMEOUT:
		e.life = milliseconds(d.Uint64())
	case unix.NFTA_SET_ELEM_EXPIRATION:
		e.left = milliseconds(d.Uint64())
	}
}

// milliseconds saturates: elements of others may live for centuries.
func milliseconds(n uint64) time.Duration {
	const most = uint64(1<<63-1) / uint64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}

// commit is what the kernel says of a transaction that it made.
type commit struct {
	generation uint32
	process    string
	pid        uint32
}

func parseCommit(m netlink.Message) (c commit, err error) {
	err = each(m, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_GEN_ID:
			c.generation = d.Uint32()
		case unix.NFTA_GEN_PROC_PID:
			c.pid = d.Uint32()
		case unix.NFTA_GEN_PROC_NAME:
			c.process = d.String()
		}
	})
	return c, err
}
