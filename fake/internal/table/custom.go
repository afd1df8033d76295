package table

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"github.com/volsim/volsim/fake"
)

// customPrinter is the printer of a custom resource.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
type customPrinter struct {
	heads []metav1.TableColumnDefinition
	paths []*jsonpath.JSONPath // of all heads but the first
}

// newCustomPrinter reads the columns of a version. It stops at the first column with an invalid
// path.
func newCustomPrinter(k *fake.CustomKind, version string) printer {
	var columns []fake.Column
	if k.Columns != nil {
		columns = k.Columns(version)
	}
	if len(columns) == 0 {
		created := metav1.TableColumnDefinition{
			Name: "Age", Type: "date", Description: doc(metav1.ObjectMeta{}, "creationTimestamp"),
		}
		columns = []fake.Column{{TableColumnDefinition: created, JSONPath: ".metadata.creationTimestamp"}}
	}
	out := customPrinter{heads: []metav1.TableColumnDefinition{name}}
	for _, c := range columns {
		path := jsonpath.New(c.Name).AllowMissingKeys(true)
		if err := path.Parse("{" + c.JSONPath + "}"); err != nil {
			break
		}
		if c.Description == "" {
			c.Description = fmt.Sprintf("Custom resource definition column (in JSONPath format): %s", c.JSONPath)
		}
		out.heads = append(out.heads, c.TableColumnDefinition)
		out.paths = append(out.paths, path)
	}
	return out
}

func (c customPrinter) columns() []metav1.TableColumnDefinition { return c.heads }

func (c customPrinter) row(obj fake.Object, now clock) (metav1.TableRow, error) {
	u, err := obj.(*fake.CustomObject).Unstructured()
	if err != nil {
		return metav1.TableRow{}, err
	}
	cells := []any{obj.GetName()}
	for i, path := range c.paths {
		cells = append(cells, customCell(path, u.Object, c.heads[i+1].Type, now))
	}
	return metav1.TableRow{Cells: cells}, nil
}

// customCell returns the value at a path of an object. nil: none, or none of the type.
func customCell(path *jsonpath.JSONPath, content map[string]any, columnType string, now clock) any {
	results, err := path.FindResults(content)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	value := results[0][0].Interface()
	if columnType != "string" {
		return typedCell(columnType, value, now)
	}
	var text strings.Builder
	if err := path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}); err != nil {
		return nil
	}
	return text.String()
}

func typedCell(columnType string, value any, now clock) any {
	switch v := value.(type) {
	case int64:
		switch columnType {
		case "integer":
			return v
		case "number":
			return float64(v)
		}
	case float64:
		switch columnType {
		case "integer":
			return int64(v)
		case "number":
			return v
		}
	case bool:
		if columnType == "boolean" {
			return v
		}
	case string:
		if columnType == "date" {
			var t metav1.Time
			if err := t.UnmarshalQueryParameter(v); err != nil {
				return "<invalid>"
			}
			return now.since(t)
		}
	}
	return nil
}
