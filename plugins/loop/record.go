package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/volsim/volsim/internal/blockcsi"
)

const (
	recordSuffix      = ".json"
	recordDraftSuffix = ".json.draft"
)

// record holds the properties of a volume that its image cannot.
type record struct {
	Name       string            `json:"name"`
	Source     string            `json:"source,omitempty"`
	Group      string            `json:"group,omitempty"`
	GroupSize  int               `json:"groupSize,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`

	Created time.Time `json:"-"` // the modification time of the record's file
	trouble string    // why it cannot be read
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
	found := record{Created: info.ModTime()}
	if err := json.Unmarshal(text, &found); err != nil {
		return &record{
			Created: info.ModTime(),
			trouble: fmt.Sprintf("%s is not a valid record (%v): delete the volume, or write {} to the file",
				file.Name(), err),
		}, nil
	}
	return &found, nil
}

// writeRecord atomically writes the record of a new volume.
func (p *pool) writeRecord(spec blockcsi.VolumeSpec) (record, error) {
	made := record{
		Name: spec.Name, Group: spec.Group, GroupSize: spec.GroupSize, Parameters: spec.Parameters,
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
