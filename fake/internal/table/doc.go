// Package table makes the tables that an API server returns to clients such as kubectl get.
//
//	claims, _ := server.Served("persistentvolumeclaims")
//	t, err := table.New(claims, metav1.ListMeta{}, objects, now, metav1.TableOptions{})
//	for _, row := range t.Rows {
//		fmt.Println(row.Cells...)
//	}
//
// The map printers has an entry for each kind with columns of its own. Other kinds show their name
// and creation time, as upstream. A custom resource has the columns that its CustomKind lists. A
// table has all columns: the client hides those with a priority.
//
// # What it does not do
//
// It does not produce v1beta1 tables, and does not encode.
//
// Upstream: pkg/printers/internalversion printers.go; k8s.io/apiserver/pkg/registry/rest table.go;
// k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
package table
