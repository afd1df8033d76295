package rules

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// goFields is a value that an error prints with all its fields, under their Go names. Upstream
// prints values of its internal types, which have no JSON names, in this way. The types of
// apimachinery are the same in both.
type goFields struct{ value any }

// MarshalJSON implements json.Marshaler.
func (g goFields) MarshalJSON() ([]byte, error) { return goJSON(reflect.ValueOf(g.value)) }

func goJSON(v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return []byte("null"), nil
	}
	if _, ok := v.Interface().(json.Marshaler); ok || strings.HasPrefix(v.Type().PkgPath(), "k8s.io/apimachinery/") {
		return json.Marshal(v.Interface())
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return goJSON(v.Elem())
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return json.Marshal(v.Interface())
		}
		return goList(v)
	case reflect.Struct:
		return goStruct(v)
	default:
		return json.Marshal(v.Interface())
	}
}

func goList(v reflect.Value) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		item, err := goJSON(v.Index(i))
		if err != nil {
			return nil, err
		}
		b.Write(item)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

func goStruct(v reflect.Value) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range v.NumField() {
		if i > 0 {
			b.WriteByte(',')
		}
		item, err := goJSON(v.Field(i))
		if err != nil {
			return nil, err
		}
		b.WriteString(`"` + v.Type().Field(i).Name + `":`)
		b.Write(item)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
