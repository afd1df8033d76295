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

	"github.com/volsim/volsim/plugins/blockcsi"
)

const (
	recordSuffix      = ".json"
	recordDraftSuffix = ".json.draft"
)

// record is what stands beside a volume's file: what the file cannot tell.
type record struct {
	Name       string            `json:"name"`
	Source     string            `json:"source,omitempty"`
	Group      string            `json:"group,omitempty"`
	GroupSize  int               `json:"groupSize,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`

	Created time.Time `json:"-"` // the time of the record's file
	trouble string    // why it cannot be read
}

// volume is what a record is of.
func (r record) volume(id string, sizeBytes int64, unfinished bool) blockcsi.Volume {
	return blockcsi.Volume{
		ID: id, Name: r.Name, SizeBytes: sizeBytes, Source: r.Source, Created: r.Created,
		Group: r.Group, GroupSize: r.GroupSize,
		Parameters: r.Parameters, Settings: r.Settings, Discard: discards(r.Parameters, r.Settings), Unfinished: unfinished, Trouble: r.trouble,
	}
}

// readRecord returns the record of a volume; nil if there is none.
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
			trouble: fmt.Sprintf("%s is not a record of this driver's (%v): delete the volume, or write {} there", file.Name(), err),
		}, nil
	}
	return &found, nil
}

// writeRecord writes the record of a volume that is to be made, at once.
func (p *pool) writeRecord(wish blockcsi.VolumeSpec) (record, error) {
	made := record{Name: wish.Name, Group: wish.Group, GroupSize: wish.GroupSize, Parameters: wish.Parameters, Settings: wish.Settings}
	if wish.From != nil {
		made.Source = wish.From.ID
	}
	return made, p.replaceRecord(wish.ID, &made)
}

// replaceRecord makes a record what is written, whole or not at all, and reads
// its time, which stays that of the first.
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
	p.step("record's draft")
	_, err = file.Write(text)
	if !made.Created.IsZero() {
		err = errors.Join(err, os.Chtimes(draft, made.Created, made.Created))
	}
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Sync(), file.Close()); err != nil {
		return err
	}
	p.step("record's draft is whole")
	made.Created = info.ModTime()
	return os.Rename(draft, filepath.Join(p.dir, id+recordSuffix))
}
