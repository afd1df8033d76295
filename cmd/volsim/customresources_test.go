package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

const gadgetDefinition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.example.com},
  spec: {group: example.com, scope: Namespaced, names: {plural: gadgets, kind: Gadget}, versions: [{name: v1, served: true, storage: true,
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// TestPathsBeginAtTheFile uses a definition and a manifest next to a session and a scenario. A
// session that is saved elsewhere still finds them.
func TestPathsBeginAtTheFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"gadgets.yaml": gadgetDefinition,
		"web.yaml":     "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: web}, spec: {size: 1Gi}}",
		"session.txt":  "nodes: 1\ncomponents: none\ndefinitions: gadgets.yaml\napply web.yaml\nwait gadget web exists\n",
		"scenario.txt": "nodes: 1\ncomponents: none\ndefinitions: gadgets.yaml\nuser alice\n  apply web.yaml\n  delete gadget web\n",
	} {
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	saved := filepath.Join(dir, "saved.txt")
	status, out := runLines(t, []string{filepath.Join(dir, "session.txt")}, "patch gadgets.example.com web spec.size=2Gi", "save "+saved, "quit")
	if status != 0 || !strings.Contains(out, "saved as") {
		t.Fatalf("status %d:\n%s", status, out)
	}
	text, err := os.ReadFile(saved)
	testcheck.NoError(t, err)
	const want = "nodes: 1\ncomponents: none\ndefinitions: gadgets.yaml\napply web.yaml\nwait gadget web exists\npatch gadgets.example.com web spec.size=2Gi\n"
	if string(text) != want {
		t.Errorf("saved:\n%s", text)
	}
	for _, args := range [][]string{
		{"replay", saved},
		{"replay", filepath.Join(dir, "scenario.txt")},
		{"explore", saved, "--strategy", "holds"},
		{"explore", filepath.Join(dir, "scenario.txt"), "--strategy", "holds"},
	} {
		if status, out, errs := volsim(t.Context(), args...); status != 0 || errs != "" && args[0] == "replay" {
			t.Errorf("%q: status %d, %s\n%s", args, status, errs, out)
		}
	}
}
