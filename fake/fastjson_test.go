package fake

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"
)

// tree returns the value as the general decoder does.
func (v jsonValue) tree() any {
	switch v[0].kind {
	case jsonBool:
		return v[0].text == "true"
	case jsonInt:
		return v[0].number()
	case jsonString:
		return v[0].text
	case jsonList:
		list := []any{}
		for value := range v.all() {
			list = append(list, value.tree())
		}
		return list
	case jsonMap:
		all := map[string]any{}
		for value := range v.all() {
			all[value[0].name] = value.tree()
		}
		return all
	default:
		return nil
	}
}

// agrees fails if a document is read differently from the general decoder.
func agrees(t rapid.TB, text string) (plain bool) {
	v, ok := readPlain([]byte(text))
	if !ok {
		return false
	}
	var want any
	strict, err := kjson.UnmarshalStrict([]byte(text), &want)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%q was read; the general decoder returns %v, %v", text, err, strict)
	}
	if got := v.tree(); !reflect.DeepEqual(want, got) {
		t.Fatalf("%q is read as %v, by the general decoder as %v", text, got, want)
	}
	return true
}

func TestPlainJSONEqualsTheGeneralDecoder(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"a":`, `"b":`, `"a"`, `""`, `"é"`, `"\n"`, `"\""`, `"\u00e9"`, `"\ud800"`, `"\x"`, "\"\xff\"", "\"\t\"",
		"null", "true", "false", "nul", "0", "7", "-1", "-", "01", "1.5", "1e3", "123456789012345678", "1234567890123456789", " ", "\n", "\f",
		`{"a":1}`, `{"a":{"b":[]}}`, `[1,"x"]`, `{"a":1,"b":null}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		agrees(t, strings.Join(rapid.SliceOfN(pieces, 1, 8).Draw(t, "pieces"), ""))
	})
}

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", plainDepthMax) + strings.Repeat("]", plainDepthMax)
	for _, text := range []string{
		`{}`, `[]`, ` {"a" : [ 1 , -2 ] , "b":{"c":null,"d":true,"e":false} } `, `"é\n"`, `{"a":{"b":1},"b":{"b":1}}`, deep,
	} {
		if !agrees(t, text) {
			t.Errorf("%q was not read", text)
		}
	}
	for _, text := range []string{
		``, ` `, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `[1,]`, `[1 2]`, `{}{}`, `1.5`, `1e3`, `01`, `-`, `tru`, `{"a":1,"a":2}`, `{a:1}`,
		`"`, `"\"`, `{"a":1}}`, "[" + deep + "]", `1234567890123456789`,
	} {
		if agrees(t, text) {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzPlainJSON(f *testing.F) {
	f.Add(`{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"Ready","reason":null}],"n":-3}}`)
	f.Add(`{"a":"\u00e9\\","b":[true,false,{}]}`)
	f.Fuzz(func(t *testing.T, text string) { agrees(t, text) })
}
