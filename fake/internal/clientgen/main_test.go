package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypedClientsAreUpToDate(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../typedclients.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run go generate ./fake (-want +got)\n%s", diff)
	}
}
