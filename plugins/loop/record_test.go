package loop

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/testcheck"
)

const anID = "vol-0123456789abcdef"

// stateOf returns the names and texts of the files in a directory.
func stateOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testcheck.NoError(t, err)
	state := map[string]string{}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(path)
		if entry.Type()&os.ModeSymlink != 0 {
			var target string
			target, err = os.Readlink(path)
			text = []byte(target)
		}
		testcheck.NoError(t, err)
		state[entry.Name()] = string(text)
	}
	return state
}

// TestStateOfAnotherVersionIsRefused opens directories with records that this version has not written.
func TestStateOfAnotherVersionIsRefused(t *testing.T) {
	for record, want := range map[string]string{
		`{"version":2,"name":"data"}`:          "version 2, want 1",
		`{"version":0,"name":"data"}`:          "version 0, want 1",
		`{"version":-1,"name":"data"}`:         "version -1, want 1",
		`null`:                                 "is null",
		" null\n":                              "is null",
		`{"name":"data","groupSize":-1}`:       "negative groupSize -1",
		`{"name":"a\u0000b"}`:                  "zero byte",
		`{"name":"data","source":"vol\u0000"}`: "zero byte",
	} {
		for _, image := range []bool{true, false} {
			dir := t.TempDir()
			testcheck.NoError(t, os.WriteFile(filepath.Join(dir, anID+recordSuffix), []byte(record), 0o600))
			if image {
				testcheck.NoError(t, os.WriteFile(filepath.Join(dir, anID+imageSuffix), make([]byte, 4096), 0o600))
			}
			before := stateOf(t, dir)
			_, err := New(Config{Dir: dir})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, anID+recordSuffix)) {
				t.Errorf("%s: got %v, want an error with %q and the file", record, err, want)
			}
			if after := stateOf(t, dir); !maps.Equal(before, after) {
				t.Errorf("%s: the directory was changed: %q", record, after)
			}
		}
	}
}

func TestAttachmentOfAnotherVersionIsRefused(t *testing.T) {
	for _, text := range []string{"2 rw node-1", "rw ", "ro ", "node-1"} {
		dir := t.TempDir()
		link := filepath.Join(dir, anID+blockcsi.AttachmentSuffix)
		testcheck.NoError(t, os.Symlink(text, link))
		_, err := New(Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), link) {
			t.Errorf("%q: got %v, want an error with the link", text, err)
		}
		if _, err := os.Readlink(link); err != nil {
			t.Error(err)
		}
	}
}

// TestStateOfThisVersionIsRead opens directories with records of this version, with and without a version.
func TestStateOfThisVersionIsRead(t *testing.T) {
	for _, record := range []string{`{"version":1,"name":"data"}`, `{"name":"data"}`} {
		dir := t.TempDir()
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, anID+recordSuffix), []byte(record), 0o600))
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, anID+imageSuffix), make([]byte, 4096), 0o600))
		testcheck.NoError(t, os.Symlink("ro node-1", filepath.Join(dir, anID+blockcsi.AttachmentSuffix)))
		d, err := New(Config{Dir: dir})
		testcheck.NoError(t, err)
		volume, err := d.pool.Volume(t.Context(), anID)
		if err != nil || volume.Name != "data" || volume.SizeBytes != 4096 || volume.Trouble != "" {
			t.Errorf("%s: volume %+v, %v", record, volume, err)
		}
	}
}

func TestRecordsHaveAVersion(t *testing.T) {
	dir := t.TempDir()
	d, err := New(Config{Dir: dir})
	testcheck.NoError(t, err)
	_, err = d.pool.Create(t.Context(), blockcsi.VolumeSpec{ID: anID, Name: "data", SizeBytes: bytesMin})
	testcheck.NoError(t, err)
	state := stateOf(t, dir)
	if got := state[anID+recordSuffix]; !strings.Contains(got, `"version":1,`) {
		t.Errorf("record %s", got)
	}
	if files := slices.Sorted(maps.Keys(state)); len(files) != 2 {
		t.Errorf("files %q", files)
	}
	// Another record, written while the driver runs, is not used either.
	testcheck.NoError(t, os.WriteFile(filepath.Join(dir, anID+recordSuffix), []byte(`{"version":2}`), 0o600))
	volume, err := d.pool.Volume(t.Context(), anID)
	if err != nil || !strings.Contains(volume.Trouble, "version 2") {
		t.Errorf("volume %+v, %v", volume, err)
	}
}

// FuzzRecord checks that a record that is read is one that this version writes.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"version":1,"name":"data","source":"snap-0123456789abcdef","parameters":{"allocate":"full"}}`,
		`{"name":"a","group":"group-0123456789abcdef","groupSize":2,"settings":{"discard":"true"}}`,
		`{"version":2}`, `null`, `{}`, `[]`, `{"groupSize":-1}`, `{"name":"\u0000"}`, `{"Version":2}`, `{"version":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found := parseRecord("file", text)
		if found.trouble != "" {
			if found.Name != "" || found.GroupSize != 0 || found.Parameters != nil || found.Settings != nil {
				t.Fatalf("%q: a record with trouble has content: %+v", text, found)
			}
			return
		}
		written, err := json.Marshal(found)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		again := parseRecord("file", written)
		rewritten, err := json.Marshal(again)
		if err != nil || again.trouble != "" || !bytes.Equal(written, rewritten) {
			t.Fatalf("%q is read as %s, and that as %s (%v, %s)", text, written, rewritten, err, again.trouble)
		}
		if found.GroupSize < 0 || strings.Contains(found.Name, "\x00") || found.Version != nil && *found.Version != recordVersion {
			t.Fatalf("%q is read as %+v", text, found)
		}
	})
}
