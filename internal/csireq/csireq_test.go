package csireq_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

func TestChooseObeysRangeAndConstraints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := csireq.Sizes{
			Default: rapid.Int64Range(0, 100).Draw(t, "default"), Min: rapid.Int64Range(0, 100).Draw(t, "min"),
			Step: rapid.Int64Range(0, 10).Draw(t, "step"), Max: rapid.Int64Range(0, 200).Draw(t, "max"),
		}
		wanted := &csi.CapacityRange{
			RequiredBytes: rapid.Int64Range(-1, 150).Draw(t, "required"), LimitBytes: rapid.Int64Range(-1, 150).Draw(t, "limit"),
		}
		fits := func(size int64) bool {
			return size >= wanted.RequiredBytes && (wanted.LimitBytes == 0 || size <= wanted.LimitBytes) &&
				size >= sizes.Min && size%max(sizes.Step, 1) == 0 && (sizes.Max == 0 || size <= sizes.Max)
		}
		size, err := sizes.Choose(wanted)
		switch status.Code(err) {
		case codes.OK:
			if !fits(size) {
				t.Fatalf("chose %d", size)
			}
			if err := csireq.CheckExisting("v", size, wanted); err != nil {
				t.Fatalf("the chosen size does not satisfy the same request again: %v", err)
			}
		case codes.OutOfRange:
			for size := range int64(300) {
				if fits(size) && wanted.RequiredBytes > 0 {
					t.Fatalf("refused although %d fits: %v", size, err)
				}
			}
		case codes.InvalidArgument:
			if wanted.RequiredBytes >= 0 && wanted.LimitBytes >= 0 && (wanted.LimitBytes == 0 || wanted.LimitBytes >= wanted.RequiredBytes) {
				t.Fatalf("refused a sound range: %v", err)
			}
		default:
			t.Fatal(err)
		}
	})
}

func TestPagesHoldEachIDOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ids []string
		for _, name := range rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "names") {
			ids = append(ids, csireq.VolumeID(name))
		}
		slices.Sort(ids)
		size := rapid.Int32Range(1, 4).Draw(t, "size")
		var got []string
		for token := ""; ; {
			page, next, err := csireq.Page(ids, token, size)
			if err != nil || len(page) > int(size) {
				t.Fatalf("page of %d, %v", len(page), err)
			}
			got = append(got, page...)
			if token = next; token == "" {
				break
			}
		}
		if !slices.Equal(got, ids) {
			t.Fatalf("all pages: %v, want %v", got, ids)
		}
	})
}

func TestVolumeIDs(t *testing.T) {
	if id := csireq.VolumeID("pvc"); !csireq.IsVolumeID(id) || id != csireq.VolumeID("pvc") || id == csireq.VolumeID("other") {
		t.Errorf("VolumeID = %q", id)
	}
	for _, id := range []string{
		"", "vol-", "vol-0123456789abcde", "vol-0123456789ABCDEF", "vol-../../../../../../",
		"0123456789abcdef",
	} {
		if csireq.IsVolumeID(id) {
			t.Errorf("IsVolumeID(%q)", id)
		}
	}
}

func TestProbeReturnsReason(t *testing.T) {
	identity := &csireq.Identity{Name: "x", Ready: func() error { return errors.New("no disk") }}
	if _, err := identity.Probe(t.Context(), nil); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Probe: %v", err)
	}
	identity.Ready = nil
	if _, err := identity.Probe(t.Context(), nil); err != nil {
		t.Errorf("Probe: %v", err)
	}
}

func TestSingleWriterDeviceIsPublishedOnce(t *testing.T) {
	node := nodefs.NewMemory("/")
	testcheck.NoError(t, csireq.StageDevice(node, "/staging", "disk-1",
		func(file string) error { return node.MountDevice("disk-1", file, false) }))
	testcheck.NoError(t, node.MkdirAll("/pods"))
	publish := func(target string, mode csi.VolumeCapability_AccessMode_Mode) error {
		return csireq.PublishDevice(node, &csi.NodePublishVolumeRequest{
			VolumeId: "vol-1", StagingTargetPath: "/staging", TargetPath: target,
			VolumeCapability: &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}},
		}, "disk-1")
	}
	const single = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	testcheck.NoError(t, publish("/pods/one", single))
	testcheck.NoError(t, publish("/pods/one", single)) // again
	if err := publish("/pods/two", single); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("published twice for a single writer: %v", err)
	}
	testcheck.NoError(t, publish("/pods/two", csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER))
}

func TestNotFoundStatusOutsideTheNode(t *testing.T) {
	_, _, err := csireq.MountAt(nodefs.NewMemory("/node"), "/elsewhere")
	if status.Code(err) != codes.InvalidArgument {
		t.Fatalf("a path outside the node: %v, want InvalidArgument", err)
	}
	if err := csireq.NotFoundStatus(err, "vol-1", "/elsewhere"); status.Code(err) != codes.NotFound {
		t.Errorf("a volume that is said to be there: %v, want NotFound", err)
	}
	if err := csireq.NotFoundStatus(nodefs.ErrBusy, "vol-1", "/elsewhere"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another error: %v, want FailedPrecondition", err)
	}
	if err := csireq.NotFoundStatus(nil, "vol-1", "/elsewhere"); err != nil {
		t.Errorf("no error became %v", err)
	}
}
