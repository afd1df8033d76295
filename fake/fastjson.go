package fake

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// A patch as most programs write it is read at a glance: into one slice, whose strings are those of the patch itself. What is not
// plain (fractions, names that are there twice, what is no JSON) may be right all the same: then those who read all JSON have the
// word.

// jsonKind is what a value of JSON is.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonInt
	jsonString
	jsonList
	jsonMap
)

// jsonNode is a value of JSON; the values in it come behind it.
type jsonNode struct {
	name string // in the map that it is in
	text string // of a string; of a number, a truth and a null as it is written; else ""
	size int32  // how many nodes it is, with those in it
	kind jsonKind
}

// jsonValue is a value of JSON, with all that is in it.
type jsonValue []jsonNode

const (
	plainDepthMax = 64
	plainDigits   = 18 // that surely make an int64
)

// readPlain reads a document, and tells whether it is plain.
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

// all are the values in a list or a map, in their order.
func (v jsonValue) all() iter.Seq[jsonValue] {
	return func(yield func(jsonValue) bool) {
		for at := 1; at < len(v); at += int(v[at].size) {
			if !yield(v[at : at+int(v[at].size)]) {
				return
			}
		}
	}
}

// count is how many values are in a list or a map.
func (v jsonValue) count() int {
	n := 0
	for range v.all() {
		n++
	}
	return n
}

// member is the value of a name in a map; nil where there is none, or where v is no map.
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

// plainReader reads a document from its beginning. Its methods tell whether what comes next is plain.
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

// next skips blanks, and takes a byte if it is the next one.
func (r *plainReader) next(c byte) bool {
	r.skip()
	is := r.at < len(r.text) && r.text[r.at] == c
	if is {
		r.at++
	}
	return is
}

// value reads a value, in which there may be so many levels.
func (r *plainReader) value(name string, depth int) bool {
	r.skip()
	if r.at == len(r.text) || depth == 0 {
		return false
	}
	here, began := len(r.nodes), r.at
	r.nodes = append(r.nodes, jsonNode{name: name})
	is, ok := jsonNull, false
	text := ""
	switch c := r.text[r.at]; {
	case c == '{':
		is, ok = jsonMap, r.members(depth-1)
	case c == '[':
		is, ok = jsonList, r.elements(depth-1)
	case c == '"':
		is = jsonString
		text, ok = r.quoted()
	case c == 't':
		is, ok = jsonBool, r.word("true")
	case c == 'f':
		is, ok = jsonBool, r.word("false")
	case c == 'n':
		ok = r.word("null")
	default:
		is, ok = jsonInt, r.digits()
	}
	node := &r.nodes[here]
	if is != jsonMap && is != jsonList && is != jsonString {
		text = r.text[began:r.at]
	}
	node.kind, node.text, node.size = is, text, int32(len(r.nodes)-here)
	return ok
}

func (r *plainReader) word(w string) bool {
	ok := strings.HasPrefix(r.text[r.at:], w)
	if ok {
		r.at += len(w)
	}
	return ok
}

// digits reads a whole number.
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

// quoted reads a string.
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
			r.at++ // what comes next ends nothing
		case c < ' ':
			return "", false
		case c >= 0x80:
			plain = false
		}
	}
	return "", false
}

// elements reads a list.
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

// members reads a map.
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

// has tells whether the map that is being read has a member of a name already.
func (r *plainReader) has(here int, name string) bool {
	for at := here + 1; at < len(r.nodes); at += int(r.nodes[at].size) {
		if r.nodes[at].name == name {
			return true
		}
	}
	return false
}

// number is a whole number.
func (n *jsonNode) number() int64 {
	is, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		panic("fake: a plain number is none: " + n.text)
	}
	return is
}
