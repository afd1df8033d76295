package csi_test

import (
	"context"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// verify returns the state of the volume in the cache and in the API.
func (d *disk) verify() (seen, is plugins.AttachState) {
	d.Helper()
	name, err := d.plugin.VolumeName(d.spec)
	d.NoError(err)
	seen = d.plugin.LastSeen(name, node1)
	d.NoError(d.do(func(ctx context.Context) error {
		is, err = d.plugin.Verify(ctx, nil, name, node1)
		return err
	}))
	return seen, is
}

func TestAttachState(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		world func(d *disk)
		want  plugins.AttachState
	}{
		{"none", func(*disk) {}, plugins.Detached},
		{"not attached yet", func(d *disk) { d.attachment("vol-1", func(*storagev1.VolumeAttachment) {}) }, plugins.Changing},
		{"attached", func(d *disk) { d.attachment("vol-1", attached) }, plugins.Attached},
		{"being deleted", func(d *disk) {
			d.attachment("vol-1", func(a *storagev1.VolumeAttachment) { held(a); attached(a) })
			d.NoError(d.User.StorageV1().VolumeAttachments().Delete(context.Background(), d.attachmentName("vol-1"),
				metav1.DeleteOptions{}))
		}, plugins.Changing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := attaching(t, "vol-1")
			tt.world(d)
			d.Run()
			if seen, is := d.verify(); seen != tt.want || is != tt.want {
				t.Errorf("seen %v, is %v, want %v", seen, is, tt.want)
			}
			testcheck.Equal(d, "requests", 1, len(d.calls(trace.KindAPI)))
		})
	}
}

func TestVerifyReadsTheAPI(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	d.attachment("vol-1", attached)
	if seen, is := d.verify(); seen != plugins.Detached || is != plugins.Attached {
		t.Errorf("made just now: seen %v, is %v", seen, is)
	}
	d.removeAttachment()
	if seen, is := d.verify(); seen != plugins.Attached || is != plugins.Detached {
		t.Errorf("removed just now: seen %v, is %v", seen, is)
	}
}

// lagging schedules one task only when there is no other.
type lagging string

func (l lagging) Decide(d *sim.Decision) sim.Move {
	for i := range d.Len() {
		if d.Task(i).Name() != string(l) {
			return sim.Move{Option: i}
		}
	}
	return sim.Move{}
}

// TestDetachLeavesNothingInTheCache deletes the attachment before the detach, which then finds
// none. A stale cache would make the next attach take the volume for attached.
func TestDetachLeavesNothingInTheCache(t *testing.T) {
	t.Parallel()
	d := attaching(t, "vol-1")
	d.attachment("vol-1", attached)
	d.Run()
	d.removeAttachment()
	d.Host.SetStrategy(lagging("process/cache volumeattachments"))
	seen := plugins.Attached
	d.NoError(d.do(func(ctx context.Context) error {
		name, err := d.plugin.VolumeName(d.spec)
		d.NoError(err)
		err = d.plugin.Detach(ctx, name, node1)
		seen = d.plugin.LastSeen(name, node1)
		return err
	}))
	testcheck.Equal(d, "requests", []string{"delete!"}, d.calls(trace.KindAPI))
	if seen != plugins.Detached {
		t.Errorf("the cache shows it as %v", seen)
	}
}
