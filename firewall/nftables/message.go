package nftables

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// chunk is how many elements one message carries. The attribute around them
// has a length of 16 bits; 1,000 MACs take 20,000 bytes.
const chunk = 1000

// creates is for what must not be there yet.
const creates = netlink.Create | netlink.Excl

// table names a table: tables of two families may have one name.
type table struct {
	family byte // one of the kernel's NFPROTO constants
	name   string
}

func (t table) String() string {
	if t.family == unix.NFPROTO_ARP {
		return "arp " + t.name
	}
	return "inet " + t.name
}

// message is a request about a table, or about those of its family. The kind is one
// of the kernel's NFT_MSG constants.
func (t table) message(kind int, flags netlink.HeaderFlags, attributes ...[]byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
		Data:   append([]byte{t.family, unix.NFNETLINK_V0, 0, 0}, slices.Concat(attributes...)...),
	}
}

// transaction puts the changes between begin and end. The kernel refuses it
// when the ruleset is not at this generation; zero is any.
func transaction(generation uint32, changes []netlink.Message) []netlink.Message {
	mark := func(kind uint16, attributes ...byte) netlink.Message {
		header := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}
		return netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request},
			Data:   append(header, attributes...),
		}
	}
	var condition []byte
	if generation != 0 {
		condition = attributeUint32(unix.NFNL_BATCH_GENID, generation)
	}
	batch := append([]netlink.Message{mark(unix.NFNL_MSG_BATCH_BEGIN, condition...)}, changes...)
	return append(batch, mark(unix.NFNL_MSG_BATCH_END))
}

// attribute is one netlink attribute, padded. A value is at most 65,531 bytes
// long, see chunk.
func attribute(kind uint16, value ...byte) []byte {
	return appendAttribute(nil, kind, value)
}

func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func attributeUint32(kind uint16, n uint32) []byte {
	return attribute(kind, binary.BigEndian.AppendUint32(nil, n)...)
}

func text(kind uint16, s string) []byte { return attribute(kind, append([]byte(s), 0)...) }

func nested(kind uint16, attributes ...[]byte) []byte {
	return attribute(kind|unix.NLA_F_NESTED, slices.Concat(attributes...)...)
}

func (t table) add() netlink.Message {
	return t.message(unix.NFT_MSG_NEWTABLE, creates, text(unix.NFTA_TABLE_NAME, t.name))
}

func (t table) remove() netlink.Message {
	return t.message(unix.NFT_MSG_DELTABLE, 0, text(unix.NFTA_TABLE_NAME, t.name))
}

// addSet adds a set; the ID tells it apart within the transaction.
func (t table) addSet(id uint32, s set) netlink.Message {
	attributes := [][]byte{
		text(unix.NFTA_SET_TABLE, t.name), text(unix.NFTA_SET_NAME, s.name), attributeUint32(unix.NFTA_SET_ID, id),
		attributeUint32(unix.NFTA_SET_FLAGS, s.flags), attributeUint32(unix.NFTA_SET_KEY_TYPE, s.keyType),
		attributeUint32(unix.NFTA_SET_KEY_LEN, s.keyLength),
	}
	if s.size != 0 {
		attributes = append(attributes, nested(unix.NFTA_SET_DESC, attributeUint32(unix.NFTA_SET_DESC_SIZE, s.size)))
	}
	return t.message(unix.NFT_MSG_NEWSET, creates, attributes...)
}

func (t table) addChain(c chain) netlink.Message {
	attributes := [][]byte{text(unix.NFTA_CHAIN_TABLE, t.name), text(unix.NFTA_CHAIN_NAME, c.name)}
	if c.kind != "" {
		attributes = append(attributes,
			nested(unix.NFTA_CHAIN_HOOK, attributeUint32(unix.NFTA_HOOK_HOOKNUM, c.hook),
				attributeUint32(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))),
			attributeUint32(unix.NFTA_CHAIN_POLICY, c.policy), text(unix.NFTA_CHAIN_TYPE, c.kind))
	}
	return t.message(unix.NFT_MSG_NEWCHAIN, creates, attributes...)
}

func (t table) addRule(r rule) (netlink.Message, error) {
	var expressions [][]byte
	for _, e := range r.expressions {
		data, err := expr.Marshal(t.family, e)
		if err != nil {
			return netlink.Message{}, fmt.Errorf("encode a rule of chain %s: %w", r.chain, err)
		}
		expressions = append(expressions, nested(unix.NFTA_LIST_ELEM, data))
	}
	return t.message(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append,
		text(unix.NFTA_RULE_TABLE, t.name), text(unix.NFTA_RULE_CHAIN, r.chain),
		nested(unix.NFTA_RULE_EXPRESSIONS, expressions...)), nil
}

// addElements adds elements, for life if d is zero. None of them may be there.
func (f *Filter) addElements(name string, d time.Duration, keys ...[]byte) []netlink.Message {
	return f.elements(unix.NFT_MSG_NEWSETELEM, creates, name, d, keys)
}

// ensureElements adds the elements that are not there.
func (f *Filter) ensureElements(name string, keys ...[]byte) []netlink.Message {
	return f.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, name, 0, keys)
}

// deleteElements deletes elements. All of them must be there and not have ended.
func (f *Filter) deleteElements(name string, keys ...[]byte) []netlink.Message {
	return f.elements(unix.NFT_MSG_DELSETELEM, 0, name, 0, keys)
}

// flushSet deletes all elements of a set, if it has any.
func (f *Filter) flushSet(name string) netlink.Message {
	return f.table.message(unix.NFT_MSG_DELSETELEM, 0,
		text(unix.NFTA_SET_ELEM_LIST_TABLE, f.table.name), text(unix.NFTA_SET_ELEM_LIST_SET, name))
}

func (f *Filter) elements(kind int, flags netlink.HeaderFlags, name string, d time.Duration,
	keys [][]byte) []netlink.Message {
	var life []byte
	if d != 0 {
		life = attribute(unix.NFTA_SET_ELEM_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(d.Milliseconds()))...)
	}
	var messages []netlink.Message
	for len(keys) > 0 {
		n := min(len(keys), chunk)
		var list []byte
		for _, key := range keys[:n] {
			element := nested(unix.NFTA_SET_ELEM_KEY, attribute(unix.NFTA_DATA_VALUE, key...))
			list = appendAttribute(list, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, append(element, life...))
		}
		messages = append(messages, f.table.message(kind, flags,
			text(unix.NFTA_SET_ELEM_LIST_TABLE, f.table.name), text(unix.NFTA_SET_ELEM_LIST_SET, name),
			attribute(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, list...)))
		keys = keys[n:]
	}
	return messages
}
