package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `volume disk is Available at resourceVersion 6, and so it stands in the controller's cache
claim red arrives; what can happen next: [pvcontroller/claims: api update persistentvolumes/disk]
the administrator writes from resourceVersion 6: disk is reserved for blue, at 8
the controller writes from resourceVersion 6, while the server holds 8: Conflict
claim red is Pending, with volume ""
claim blue is Bound, with volume "disk"
`

func TestConflict(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
