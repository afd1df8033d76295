package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestServeContainers refuses what cannot run containers, or must not.
func TestServeContainers(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"unknown", "want shell, process or none", []string{"--containers", "docker"}},
		{"other hosts", "remove --listen 0.0.0.0:0, which admits other hosts", []string{"--containers", "process", "--listen", "0.0.0.0:0"}},
		{"host name", "remove --listen box.example:0", []string{"--containers", "process", "--listen", "box.example:0"}},
		{"all addresses", "remove --listen :8443", []string{"--containers", "process", "--listen", ":8443"}},
		{"shell admits other hosts", "invalid --nodes 0", []string{"--containers", "shell", "--listen", "0.0.0.0:0", "--nodes", "0"}},
		{"loopback", "invalid --nodes 0", []string{"--containers", "process", "--listen", "[::1]:0", "--nodes", "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs strings.Builder
			args := append([]string{"serve", "--kubeconfig", filepath.Join(t.TempDir(), "config")}, tt.args...)
			status := run(t.Context(), args, &out, &errs)
			if status != 2 || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("status %d, %s; want %q", status, errs.String(), tt.want)
			}
		})
	}
}
