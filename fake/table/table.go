package table

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// Of makes a table of objects of a resource.
func Of(_ fake.APIResource, meta metav1.ListMeta, objects []fake.Object, _ time.Time, opts metav1.TableOptions) (*metav1.Table, error) {
	t := &metav1.Table{ListMeta: meta}
	if !opts.NoHeaders {
		t.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}}
	}
	for _, obj := range objects {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{obj.GetName()}, Object: runtime.RawExtension{Object: obj}})
	}
	return t, nil
}
