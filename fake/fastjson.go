package fake

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// This file parses common patches into one slice, without copying strings. It does not support
// fractions, duplicate names, large maps and invalid JSON: the general decoder then decides.

// A jsonKind is the type of a JSON value.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonInt
	jsonString
	jsonList
	jsonMap
)

// A jsonNode is a JSON value. Its elements or members are the nodes that follow.
type jsonNode struct {
	name string // in its map
	text string // of a string; of a number, a boolean and null as written; else ""
	size int32  // number of nodes, including elements and members
	kind jsonKind
}

// A jsonValue is a JSON value with its elements or members.
type jsonValue []jsonNode

const (
	plainDepthMax   = 64
	plainMembersMax = 256 // of a map, since names are compared with each other
	plainDigits     = 18  // always fit an int64
)

// readPlain parses a document. It returns false if the document is not supported.
func readPlain(data []byte) (jsonValue, bool) {
	most := 1 + bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'{'}) + bytes.Count(data, []byte{'['})
	r := plainReader{text: string(data), nodes: make([]jsonNode, 0, most)}
	if !r.value("", plainDepthMax) {
		return nil, false
	}
	r.skip()
	return r.nodes, r.at == len(r.text)
}

func (v jsonValue) isNull() bool { return v[0].kind == jsonNull }

// all returns the values in a list or a map, in order.
func (v jsonValue) all() iter.Seq[jsonValue] {
	return func(yield func(jsonValue) bool) {
		for at := 1; at < len(v); at += int(v[at].size) {
			if !yield(v[at : at+int(v[at].size)]) {
				return
			}
		}
	}
}

// count returns the number of values in a list or a map.
func (v jsonValue) count() int {
	n := 0
	for range v.all() {
		n++
	}
	return n
}

// member returns a member of a map. It returns nil if there is none, or if v is not a map.
func (v jsonValue) member(name string) jsonValue {
	if v[0].kind != jsonMap {
		return nil
	}
	for member := range v.all() {
		if member[0].name == name {
			return member
		}
	}
	return nil
}

// A plainReader parses a document. Its methods report whether the input is supported.
type plainReader struct {
	text  string
	at    int
	nodes []jsonNode
}

func (r *plainReader) skip() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

// next skips white space, and consumes c if it is the next byte.
func (r *plainReader) next(c byte) bool {
	r.skip()
	found := r.at < len(r.text) && r.text[r.at] == c
	if found {
		r.at++
	}
	return found
}

// value parses a value of limited depth.
func (r *plainReader) value(name string, depth int) bool {
	r.skip()
	if r.at == len(r.text) || depth == 0 {
		return false
	}
	here, began := len(r.nodes), r.at
	r.nodes = append(r.nodes, jsonNode{name: name})
	kind, ok := jsonNull, false
	text := ""
	switch c := r.text[r.at]; {
	case c == '{':
		kind, ok = jsonMap, r.members(depth-1)
	case c == '[':
		kind, ok = jsonList, r.elements(depth-1)
	case c == '"':
		kind = jsonString
		text, ok = r.quoted()
	case c == 't':
		kind, ok = jsonBool, r.word("true")
	case c == 'f':
		kind, ok = jsonBool, r.word("false")
	case c == 'n':
		ok = r.word("null")
	default:
		kind, ok = jsonInt, r.digits()
	}
	node := &r.nodes[here]
	if kind != jsonMap && kind != jsonList && kind != jsonString {
		text = r.text[began:r.at]
	}
	node.kind, node.text, node.size = kind, text, int32(len(r.nodes)-here)
	return ok
}

func (r *plainReader) word(w string) bool {
	ok := strings.HasPrefix(r.text[r.at:], w)
	if ok {
		r.at += len(w)
	}
	return ok
}

// digits parses an integer.
func (r *plainReader) digits() bool {
	if r.text[r.at] == '-' {
		r.at++
	}
	began := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	n := r.at - began
	if r.at < len(r.text) && strings.IndexByte(".eE", r.text[r.at]) >= 0 {
		return false
	}
	return n > 0 && n <= plainDigits && (n == 1 || r.text[began] != '0')
}

// quoted parses a string.
func (r *plainReader) quoted() (string, bool) {
	began, plain := r.at, true
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"' && plain:
			r.at++
			return r.text[began+1 : r.at-1], true
		case c == '"':
			r.at++
			var s string
			err := json.Unmarshal([]byte(r.text[began:r.at]), &s)
			return s, err == nil
		case c == '\\':
			plain = false
			r.at++ // the next byte is escaped
		case c < ' ':
			return "", false
		case c >= 0x80:
			plain = false
		}
	}
	return "", false
}

// elements parses a list.
func (r *plainReader) elements(depth int) bool {
	r.at++
	if r.next(']') {
		return true
	}
	for r.value("", depth) {
		if r.next(']') {
			return true
		}
		if !r.next(',') {
			return false
		}
	}
	return false
}

// members parses a map.
func (r *plainReader) members(depth int) bool {
	here := len(r.nodes) - 1
	r.at++
	if r.next('}') {
		return true
	}
	for {
		r.skip()
		if r.at == len(r.text) || r.text[r.at] != '"' {
			return false
		}
		name, ok := r.quoted()
		if !ok || !r.next(':') || r.has(here, name) || !r.value(name, depth) {
			return false
		}
		if r.next('}') {
			return true
		}
		if !r.next(',') {
			return false
		}
	}
}

// has reports whether the map being parsed already has a member, or has as many as are supported.
func (r *plainReader) has(here int, name string) bool {
	n := 0
	for at := here + 1; at < len(r.nodes); at += int(r.nodes[at].size) {
		if n++; r.nodes[at].name == name || n == plainMembersMax {
			return true
		}
	}
	return false
}

// number returns an integer.
func (n *jsonNode) number() int64 {
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		panic("fake: invalid number " + n.text)
	}
	return i
}
