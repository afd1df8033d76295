//go:build linux

package lvm2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// asOne makes changes wait for the metadata together while it calls a function. It returns their
// results and the commands that ran.
func (d *onDisks) asOne(count int, change func(i int) error, meanwhile func()) (failed []error, commands []string) {
	d.Helper()
	testcheck.NoError(d, d.group.metadata.Acquire(d.Context(), 1))
	failed = make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { failed[i] = change(i) })
	}
	d.untilWait(count)
	meanwhile()
	var mu sync.Mutex
	d.onCommand = func(arguments []string, ended bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ended:
			commands = append(commands, strings.Join(arguments, " "))
		case d.onBegin != nil:
			d.onBegin()
		}
	}
	d.group.metadata.Release(1)
	group.Wait()
	d.onCommand = nil
	return failed, commands
}

// untilWait waits until a number of changes wait for the metadata.
func (d *onDisks) untilWait(want int) {
	d.Helper()
	testcheck.NoError(d, retryBriefly(nil, func() (bool, error) {
		d.group.batches.mu.Lock()
		defer d.group.batches.mu.Unlock()
		count := 0
		for _, each := range d.group.batches.waiting {
			count += len(each)
		}
		if count != want {
			return false, fmt.Errorf("%d wait for the metadata, want %d", count, want)
		}
		return true, nil
	}))
}

func TestWaitingChangesAreBatched(t *testing.T) {
	d := newOnDisks(t)
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("v-%d", i))
		_, err := d.group.Create(t.Context(), Spec{Name: names[i], Size: 8 << 20})
		testcheck.NoError(d, err)
		device, err := d.group.Activate(t.Context(), names[i])
		testcheck.NoError(d, err)
		content := []byte(strings.Repeat("content of "+names[i], 1000))
		testcheck.NoError(d, os.WriteFile(device, content, 0))
	}
	failed, commands := d.asOne(8, func(i int) error { return d.group.Tag(t.Context(), names[i], []string{"a"}, nil) },
		func() {})
	testcheck.NoError(d, errors.Join(failed...))
	if len(commands) != 1 {
		t.Errorf("tagging took %q", commands)
	}
	tagged, err := d.group.List(t.Context(), "a")
	testcheck.NoError(d, err)
	if len(tagged) != 8 {
		t.Errorf("tagged are %q", namesOf(tagged))
	}

	// A change of a volume that was removed meanwhile fails alone.
	failed, _ = d.asOne(4, func(i int) error { return d.group.Tag(t.Context(), names[i], []string{"b"}, nil) }, func() {
		d.lvm("lvremove", "-q", "-y", "g/"+names[0])
	})
	for i, err := range failed {
		if i == 0 != errors.Is(err, ErrNotFound) || i > 0 && err != nil {
			t.Errorf("tagging %s: %v", names[i], err)
		}
	}
	if tagged, err = d.group.List(t.Context(), "b"); err != nil || !slices.Equal(namesOf(tagged), names[1:4]) {
		t.Errorf("tagged are %q, %v", namesOf(tagged), err)
	}

	// So does a canceled one.
	ctx, cancel := context.WithCancel(t.Context())
	failed, _ = d.asOne(3, func(i int) error {
		if i == 0 {
			return d.group.Tag(ctx, names[1], []string{"c"}, nil)
		}
		return d.group.Tag(t.Context(), names[1+i], []string{"c"}, nil)
	}, func() {
		cancel()
		d.untilWait(2)
	})
	if !errors.Is(failed[0], context.Canceled) || failed[1] != nil || failed[2] != nil {
		t.Errorf("tagging: %v", failed)
	}
	if tagged, err = d.group.List(t.Context(), "c"); err != nil || !slices.Equal(namesOf(tagged), names[2:4]) {
		t.Errorf("tagged are %q, %v", namesOf(tagged), err)
	}

	// But a canceled change that already runs for others completes.
	ctx, cancel = context.WithCancel(t.Context())
	d.onBegin = cancel
	failed, commands = d.asOne(3, func(i int) error { return d.group.Tag(ctx, names[1+i], []string{"d"}, nil) },
		func() {})
	d.onBegin = nil
	testcheck.NoError(d, errors.Join(failed...))
	if len(commands) != 1 {
		t.Errorf("tagging took %q", commands)
	}

	failed, commands = d.asOne(7, func(i int) error { return d.group.Remove(t.Context(), names[i+1]) }, func() {
		d.lvm("lvremove", "-q", "-y", "g/"+names[5])
	})
	testcheck.NoError(d, errors.Join(failed...))
	if len(commands) != 8 {
		t.Errorf("removing took %q", commands)
	}
	report, err := d.group.Report(t.Context())
	testcheck.NoError(d, err)
	if len(report.LogicalVolumes) != 0 {
		t.Errorf("remaining: %q", namesOf(report.LogicalVolumes))
	}
	for _, disk := range d.Disks() {
		content := d.content(disk, 8*8<<20)
		for _, name := range names[1:] { // the first was removed manually
			if bytes.Contains(content, []byte("content of "+name)) {
				t.Errorf("%s still has the content of %s", disk.Path, name)
			}
		}
	}
}

// content returns the start of the content of a disk behind the metadata.
func (d *onDisks) content(disk Disk, size int) []byte {
	d.Helper()
	file, err := os.Open(disk.Path)
	testcheck.NoError(d, err)
	defer file.Close()
	content := make([]byte, size)
	_, err = file.ReadAt(content, 1<<20)
	testcheck.NoError(d, err)
	return content
}

// A process that is killed between a removal and its discarding leaves content on the disk, which
// the next one clears.
func TestInterruptedDiscardIsCompleted(t *testing.T) {
	d := newOnDisks(t)
	for _, name := range []string{"kept", "gone"} {
		_, err := d.group.Create(t.Context(), Spec{Name: name, Size: 8 << 20})
		testcheck.NoError(d, err)
		device, err := d.group.Activate(t.Context(), name)
		testcheck.NoError(d, err)
		testcheck.NoError(d, os.WriteFile(device, []byte(strings.Repeat("content of "+name, 1000)), 0))
		testcheck.NoError(d, d.group.Deactivate(t.Context(), name))
	}
	d.lvm("lvremove", "-q", "-y", "g/gone")
	d.group.unrecovered = true // as for a new process
	_, err := d.VolumeGroup(t.Context(), "g")
	testcheck.NoError(d, err)
	content := d.content(d.Disks()[0], 2*8<<20)
	if bytes.Contains(content, []byte("content of gone")) || !bytes.Contains(content, []byte("content of kept")) {
		t.Error("removed content remains, or kept content is lost")
	}
}
