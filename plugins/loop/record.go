package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/volsim/volsim/internal/blockcsi"
)

const (
	recordSuffix      = ".json"
	recordDraftSuffix = ".json.draft"
)

// recordVersion is the version of the records that this package reads and writes. A record without a
// version has version 1.
const recordVersion = 1

// record holds the properties of a volume that its image cannot.
type record struct {
	Version    *int              `json:"version,omitempty"`
	Name       string            `json:"name"`
	Source     string            `json:"source,omitempty"`
	Group      string            `json:"group,omitempty"`
	GroupSize  int               `json:"groupSize,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`

	Created time.Time `json:"-"` // the modification time of the record's file
	trouble string    // why it cannot be read
	foreign bool      // it is not of this version, so neither may be its files
}

// volume returns the volume of a record.
func (r record) volume(id string, sizeBytes int64, unfinished bool) blockcsi.Volume {
	return blockcsi.Volume{
		ID: id, Name: r.Name, SizeBytes: sizeBytes, Source: r.Source, Created: r.Created,
		Group: r.Group, GroupSize: r.GroupSize,
		Parameters: r.Parameters, Settings: r.Settings, Discard: discards(r.Parameters, r.Settings),
		Unfinished: unfinished, Trouble: r.trouble,
	}
}

// readRecord returns the record of a volume, or nil.
func (p *pool) readRecord(id string) (*record, error) {
	file, err := os.Open(filepath.Join(p.dir, id+recordSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	found := parseRecord(file.Name(), text)
	found.Created = info.ModTime()
	return &found, nil
}

// parseRecord returns the record of a text. If the text is none, it returns an empty record with
// trouble, which names the file.
func parseRecord(name string, text []byte) record {
	var found record
	if err := json.Unmarshal(text, &found); err != nil {
		return record{trouble: fmt.Sprintf("%s is not a valid record (%v): delete the volume, or write {} to the file",
			name, err)}
	}
	if err := found.check(text); err != nil {
		return record{trouble: fmt.Sprintf("%s: %v", name, err), foreign: true}
	}
	return found
}

// check returns an error for a record, with its text, that this version has not written.
func (r *record) check(text []byte) error {
	const advice = "start the version of the driver that wrote it, or move the volume's files away"
	switch {
	case string(bytes.TrimSpace(text)) == "null":
		return errors.New("the record is null: write {} to the file, or move the volume's files away")
	case r.Version != nil && *r.Version != recordVersion:
		return fmt.Errorf("the record has version %d, want %d: %s", *r.Version, recordVersion, advice)
	case r.GroupSize < 0:
		return fmt.Errorf("the record has the negative groupSize %d: %s", r.GroupSize, advice)
	case strings.Contains(r.Name+r.Source+r.Group, "\x00"):
		return fmt.Errorf("the record has a name, source or group with a zero byte: %s", advice)
	}
	return nil
}

// checkRecords returns an error for each record that this version cannot read safely.
func (p *pool) checkRecords() error {
	ids, err := p.ids()
	failed := []error{err}
	for _, id := range ids {
		found, err := p.readRecord(id)
		if err == nil && found != nil && found.foreign {
			err = errors.New(found.trouble)
		}
		failed = append(failed, err)
	}
	_, err = p.attachments.List()
	return errors.Join(append(failed, err)...)
}

// writeRecord atomically writes the record of a new volume.
func (p *pool) writeRecord(spec blockcsi.VolumeSpec) (record, error) {
	version := recordVersion
	made := record{
		Version: &version, Name: spec.Name, Group: spec.Group, GroupSize: spec.GroupSize, Parameters: spec.Parameters,
		Settings: spec.Settings,
	}
	if spec.From != nil {
		made.Source = spec.From.ID
	}
	return made, p.replaceRecord(spec.ID, &made)
}

// replaceRecord atomically replaces a record. The time of creation stays that of the first record.
func (p *pool) replaceRecord(id string, made *record) error {
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	draft := filepath.Join(p.dir, id+recordDraftSuffix)
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p.step("record draft")
	_, err = file.Write(text)
	if !made.Created.IsZero() {
		err = errors.Join(err, os.Chtimes(draft, made.Created, made.Created))
	}
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Sync(), file.Close()); err != nil {
		return err
	}
	p.step("record draft complete")
	made.Created = info.ModTime()
	return os.Rename(draft, filepath.Join(p.dir, id+recordSuffix))
}
