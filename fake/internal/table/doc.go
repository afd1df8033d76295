// Package table makes the tables that the API server answers with when a client asks for its objects as one: what
// kubectl get prints.
//
// Each kind has a row in kindsOf: its columns, and what stands in them. Kinds without a row, and those for which upstream
// has none either, show their name and when they were created. A custom resource has the columns that its
// CustomKind lists. Whoever asks gets all columns: the client hides those with a priority.
//
// What it does not do: it knows no v1beta1 of a Table, and encodes nothing.
//
// Upstream: pkg/printers/internalversion printers.go; k8s.io/apiserver/pkg/registry/rest table.go;
// k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
package table
