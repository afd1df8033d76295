package openapi

import (
	_ "embed" // for what comments say
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// descriptionsJSON are the descriptions that the real server has and SwaggerDoc has not, or not whole.
//
//go:embed descriptions.json
var descriptionsJSON []byte

// enumsJSON are the values of the enumerated types, by type, and what upstream says of them. They stand in comments of its
// source.
//
//go:embed enums.json
var enumsJSON []byte

// read reads embedded JSON.
func read[T any](data []byte) T {
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		panic("openapi: " + err.Error())
	}
	return out
}

// enums are enumerated types: by their name, their values and what these mean.
type enums map[string]map[string]string

func (e enums) of(t reflect.Type) map[string]string {
	t = deref(t)
	return e[strings.TrimPrefix(t.PkgPath(), "k8s.io/")+"."+t.Name()]
}

// values are the values of a type, sorted. nil: anything.
func (e enums) values(t reflect.Type) []string { return slices.Sorted(maps.Keys(e.of(t))) }

// list says which values a type has and what they mean, as descriptions of fields do.
//
// Upstream: k8s.io/kube-openapi/pkg/generators/enum.go DescriptionLines.
func (e enums) list(t reflect.Type) string {
	means := e.of(t)
	if means == nil {
		return ""
	}
	out := "\n\nPossible enum values:"
	for _, v := range e.values(t) {
		out += strings.TrimRight(fmt.Sprintf("\n - `%q` %s", v, means[v]), " ")
	}
	return out
}
