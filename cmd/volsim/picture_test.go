package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplayDraws(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		file, kind, want string
	}{
		{"a.svg", "space-time", "A space-time diagram"},
		{"a.svg", "sequence", "A sequence diagram"}, // replaces the first
		{"a.svg", "timeline", "A timeline"},
		{"a.svg", "states", "state machines"},
		{"b.mmd", "space-time", "sequenceDiagram"},
		{"b.mmd", "states", "stateDiagram-v2"},
		{"b.txt", "timeline", "Claims"},
	} {
		path := filepath.Join(dir, tt.file)
		status, out, errs := volsim(t.Context(), "replay", "two-claims-one-volume", "--svg", path, "--picture", tt.kind)
		if status != 0 || errs != "" || !strings.Contains(out, "no invariant violated") {
			t.Fatalf("%s as %s: status %d, stderr %q:\n%s", tt.kind, tt.file, status, errs, out)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), tt.want) {
			t.Errorf("%s as %s: no %q in:\n%s", tt.kind, tt.file, tt.want, content)
		}
		if strings.HasSuffix(tt.file, ".svg") {
			wellFormed(t, string(content))
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("files %v, %v; want three", files, err)
	}
}

func wellFormed(t *testing.T, content string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(content))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestReplayPrintsOnlyThePicture(t *testing.T) {
	status, out, errs := volsim(t.Context(), "replay", "two-claims-one-volume", "--svg", "-", "--picture", "sequence")
	if status != 0 || errs != "" || strings.Contains(out, "as expected by the file") || !strings.Contains(out, "│") || !strings.Contains(out, "creates volume disk-1") {
		t.Errorf("status %d, stderr %q:\n%s", status, errs, out)
	}
}

func TestDemoDraws(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.svg")
	status, out, errs := volsim(t.Context(), "demo", "--devices", "array", "--svg", path)
	if status != 0 || errs != "" || !strings.Contains(out, "No leaks.") {
		t.Fatalf("status %d, stderr %q:\n%s", status, errs, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, string(content))
	for _, want := range []string{">user<", ">kubelet(node-2)<", "reports pod default/web Running", "removes the last finalizer"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if strings.Contains(string(content), "registers driver") {
		t.Error("the picture includes the start of the cluster")
	}
	status, out, errs = volsim(t.Context(), "demo", "--devices", "array", "--svg", "-", "--picture", "timeline")
	if status != 0 || errs != "" || !strings.HasPrefix(out, "Life cycle of a volume\nClaims\n") || strings.Contains(out, "No leaks.") {
		t.Errorf("status %d, stderr %q:\n%s", status, errs, out)
	}
}

func TestPictureOptionsAreValidated(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "existing.svg")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--svg", filepath.Join(dir, "a.png")}, "want a file name ending in .svg, .mmd (Mermaid) or .txt, or -"},
		{[]string{"--svg", filepath.Join(dir, "no", "a.svg")}, "directory of the file: "},
		{[]string{"--svg", filepath.Join(file, "a.svg")}, "existing.svg is not a directory"},
		{[]string{"--svg", file, "--picture", "photo"}, `invalid --picture "photo": want space-time, sequence, timeline or states`},
		{[]string{"--picture", "states"}, "requires --svg FILE"},
	} {
		for _, command := range [][]string{{"replay", "two-claims-one-volume"}, {"demo", "--devices", "array"}} {
			status, out, errs := volsim(t.Context(), append(command, tt.args...)...)
			if status != 2 || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("%v %v: status %d, stdout %q, stderr %q; want 2 and %q", command, tt.args, status, out, errs, tt.want)
			}
		}
	}
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "before" {
		t.Errorf("existing file: %q, %v", content, err)
	}
}
