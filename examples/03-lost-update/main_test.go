package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestLostUpdate reads what is printed: the failure, what it takes, how it comes about, and that it is cured.
func TestLostUpdate(t *testing.T) {
	holds, said := 2, "2 holds"
	if testing.Short() {
		holds, said = 1, "1 hold"
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, holds); err != nil {
		t.Fatal(err)
	}
	rest := out.String()
	for _, want := range []string{
		"The careless reconciler, in schedule ",
		": the world came to rest with nothing; in the ordinary course with 1 volume Released.\n",
		"It takes this, and nothing else: ", " hold: labeler/persistentvolumes\n",
		"labeler/persistentvolumes reads persistentvolumes/",
		"alice sets the reclaim policy of volume ", " to Retain, which was Delete\n",
		"alice deletes claim default/data",
		"labeler/persistentvolumes sets the reclaim policy of volume ", " to Delete, which was Retain\n",
		"provisioner/volumes has the driver delete the volume ",
		fmt.Sprintf("The careful reconciler: no failure with at most %s, in ", said),
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q does not come where it should in\n%s", want, &out)
		}
		rest = after
	}
}
