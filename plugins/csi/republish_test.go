package csi_test

import (
	"slices"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
)

func TestRequiresRemount(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := []struct {
		name   string
		driver *storagev1.CSIDriverSpec // nil: no object
		want   bool
	}{
		{"no CSIDriver", nil, false},
		{"not said", &storagev1.CSIDriverSpec{}, false},
		{"not required", &storagev1.CSIDriverSpec{RequiresRepublish: &no}, false},
		{"required", &storagev1.CSIDriverSpec{RequiresRepublish: &yes}, true},
		{"tokens alone", &storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, d := stubDisk(t, true, false)
			if tt.driver != nil {
				d.csiDriver(*tt.driver)
			}
			inline := d.written()
			testcheck.Equal(d, "of a PersistentVolume, written out", []bool{tt.want, tt.want},
				[]bool{d.plugin.RequiresRemount(d.spec), d.plugin.RequiresRemount(inline.spec)})
		})
	}
}

// TestFailedRemountKeepsMount: a volume that is published again, or was before the process started,
// stays as it is whatever the driver answers, also for a driver that mounts nothing.
func TestFailedRemountKeepsMount(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]plugins.MountOptions{
		"remount":       {Remount: true},
		"reconstructed": {Reconstructed: true},
	} {
		for _, c := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.Unavailable} {
			t.Run(name+", "+c.String(), func(t *testing.T) {
				t.Parallel()
				want := plugins.Final
				if c == codes.Unavailable {
					want = plugins.Uncertain
				}
				mounting := arrayDisk(t)
				_, d := stubDisk(t, true, false)
				for _, d := range []*disk{mounting, d} {
					d.NoError(d.mountDevice())
					d.NoError(d.setUp())
					before := d.leaves()
					d.use = use
					d.conn.faults = []fault{{method: "NodeStageVolume", err: coded(c)}, {method: "NodePublishVolume", err: coded(c)}}
					d.class("MountDevice", d.mountDevice(), want)
					d.class("SetUp", d.setUp(), want)
					testcheck.Equal(d, "disk", before, d.leaves())
					d.NoError(d.setUp())
					d.NoError(d.tearDown())
					d.NoError(d.unmountDevice())
					testcheck.Equal(d, "disk at the end", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
				}
			})
		}
	}
}

// TestFailedMountLeavesNothing uses the same driver, which mounts nothing.
func TestFailedMountLeavesNothing(t *testing.T) {
	t.Parallel()
	_, d := stubDisk(t, true, false)
	d.conn.faults = []fault{
		{method: "NodeStageVolume", err: coded(codes.InvalidArgument)},
		{method: "NodePublishVolume", err: coded(codes.InvalidArgument)},
	}
	d.class("MountDevice", d.mountDevice(), plugins.Final)
	d.class("SetUp", d.setUp(), plugins.Final)
	testcheck.Equal(d, "disk", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
}

// TestRepublishedVolumeIsTheSame: the driver gets the same request again, and no file of the
// kubelet changes.
func TestRepublishedVolumeIsTheSame(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	before, first := d.leaves(), last[*csispec.NodePublishVolumeRequest](s)
	d.use.Remount = true
	d.NoError(d.setUp())
	testcheck.Equal(d, "disk", before, d.leaves())
	if again := last[*csispec.NodePublishVolumeRequest](s); again == first || !slices.Contains(d.calls("driver"),
		"NodePublishVolume") {
		t.Error("the driver is not asked again")
	}
}
