package ownership_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// TestRun has the one call of the process succeed, fail, or take long.
func TestRun(t *testing.T) {
	t.Parallel()
	const slow = "Warning VolumePermissionChangeInProgress Setting volume ownership for " +
		"uid-1/volumes/kubernetes.io~csi/pv/mount"
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	tests := []struct {
		name       string
		fault      sim.Fault
		policy     *corev1.PodFSGroupChangePolicy
		already    bool // the directory is the group's
		noRecorder bool
		fails      bool
		sub, dir   int // whose group they are then
		took       time.Duration
		want       []string
	}{
		{name: "quick", sub: 3000, dir: 3000},
		{
			name: "slow", fault: sim.Fault{Kind: sim.FaultHang}, fails: true, sub: 3000, dir: 3000, took: 2 * time.Minute,
			want: []string{
				slow + " is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/" +
					"configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods",
				slow + ", processed 2 files.",
			},
		},
		{
			name: "slow, without a recorder", fault: sim.Fault{Kind: sim.FaultHang}, noRecorder: true, fails: true, sub: 3000,
			dir: 3000, took: 2 * time.Minute,
		},
		{name: "fails", fault: sim.Fault{Kind: sim.FaultDriver, Code: codes.Internal}, fails: true},
		{name: "not needed", policy: &onMismatch, already: true, dir: 3000},
		{name: "needed though the directory is right", already: true, sub: 3000, dir: 3000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := disk(t)
			testcheck.NoError(t, m.MkdirAll(dir+"/sub"))
			if tt.already {
				testcheck.NoError(t, m.Chown(dir, -1, 3000), m.Chmod(dir, fs.ModeSetgid|0o770))
			}
			host := sim.NewStepped(sim.SteppedConfig{Strategy: wrong{tt.fault}})
			defer host.Close()
			recorder := record.NewFakeRecorder(8)
			change := ownership.Change{
				Process: host.Process("kubelet"), FS: m, Volume: "driver/handle", Dir: dir, Group: group, Policy: tt.policy,
				Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-1"}},
			}
			if !tt.noRecorder {
				change.Recorder = recorder
			}
			began, err := host.Now(), errors.New("not run")
			var took time.Duration
			change.Process.Spawn("change", func(ctx context.Context) {
				err = change.Run(ctx)
				took = host.Now().Sub(began)
			})
			testcheck.NoError(t, host.Run())
			if (err != nil) != tt.fails {
				t.Errorf("Run: %v", err)
			}
			close(recorder.Events)
			var told []string
			for event := range recorder.Events {
				told = append(told, event)
			}
			if diff := cmp.Diff(tt.want, told, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if groups := []int{groupOf(t, m, dir+"/sub"), groupOf(t, m, dir)}; !cmp.Equal(groups,
				[]int{tt.sub, tt.dir}) || took != tt.took {
				t.Errorf("groups %v after %v, want %v after %v", groups, took, []int{tt.sub, tt.dir}, tt.took)
			}
			if waiting := host.Waiting(); len(waiting) > 0 {
				t.Errorf("tasks still waiting at the end: %v", waiting)
			}
		})
	}
}

func groupOf(t *testing.T, m *nodefs.Memory, at string) int {
	t.Helper()
	info, err := m.Stat(at)
	testcheck.NoError(t, err)
	return info.GID
}

// wrong is the default order with a fault in each call to which it applies. Here there is one.
type wrong struct{ fault sim.Fault }

func (f wrong) Decide(d *sim.Decision) sim.Move {
	if action, ok := d.Task(0).Pending(); ok && f.fault.Kind != "" && f.fault.Applies(action) {
		return sim.Move{Fault: f.fault}
	}
	return sim.Move{}
}
