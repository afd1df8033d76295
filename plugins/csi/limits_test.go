package csi_test

import (
	"context"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// limitedDriver is a driver that reports the node's volume limit.
type limitedDriver struct {
	csispec.UnimplementedNodeServer
	limit int64
	asked int
}

func (d *limitedDriver) NodeGetInfo(
	context.Context, *csispec.NodeGetInfoRequest,
) (*csispec.NodeGetInfoResponse, error) {
	d.asked++
	return &csispec.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: d.limit}, nil
}

func (d *limitedDriver) NodeGetCapabilities(
	context.Context, *csispec.NodeGetCapabilitiesRequest,
) (*csispec.NodeGetCapabilitiesResponse, error) {
	return &csispec.NodeGetCapabilitiesResponse{}, nil
}

const limitedName = "limited.example.com"

// withLimit returns a world with a registered driver that must be asked every minute.
func withLimit(t *testing.T, limit int64) (*world, *limitedDriver) {
	t.Helper()
	w, d := newWorld(t), &limitedDriver{limit: limit}
	minute := int64(60)
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: limitedName}}
	driver.Spec.NodeAllocatableUpdatePeriodSeconds = &minute
	_, err := w.User.StorageV1().CSIDrivers().Create(t.Context(), driver, metav1.CreateOptions{})
	w.NoError(err)
	w.Run()
	conn := csi.Suspend(w.process, limitedName, csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterNodeServer(r,
			d)
	}))
	w.NoError(w.do(func(ctx context.Context) error {
		info, err := w.plugin.AddDriver(ctx, limitedName, conn)
		if err != nil {
			return err
		}
		return w.plugin.Publish(ctx, limitedName, info)
	}))
	return w, d
}

func (w *world) allocatable() int32 {
	w.Helper()
	drivers := w.registered()
	if len(drivers) != 1 || drivers[0].Allocatable == nil || drivers[0].Allocatable.Count == nil {
		w.Fatalf("the CSINode has %v, want one driver that says how many volumes", drivers)
	}
	return *drivers[0].Allocatable.Count
}

func TestRefreshWritesChanges(t *testing.T) {
	t.Parallel()
	w, d := withLimit(t, 3)
	if period := w.plugin.UpdatePeriod(limitedName); period != time.Minute {
		t.Errorf("got period %v, want a minute", period)
	}
	refresh := func() {
		t.Helper()
		w.NoError(w.do(func(ctx context.Context) error { return w.plugin.Refresh(ctx, limitedName) }))
	}
	before, _ := w.Server.Get("csinodes", "", node1)
	refresh()
	after, _ := w.Server.Get("csinodes", "", node1)
	if before.GetResourceVersion() != after.GetResourceVersion() || d.asked != 2 {
		t.Errorf("asked %d times, from revision %s to %s: want a question more, and no write", d.asked,
			before.GetResourceVersion(), after.GetResourceVersion())
	}
	d.limit = 2
	refresh()
	if n := w.allocatable(); n != 2 {
		t.Errorf("the CSINode has %d, want 2", n)
	}
	if err := w.do(func(ctx context.Context) error { return w.plugin.Refresh(ctx, "unknown.example.com") }); err != nil {
		t.Errorf("a driver that is not registered: %v, want nothing", err)
	}
}

// A volume is not attached because of the node's limit if its attachment says so since it was
// requested, and its driver is asked periodically.
//
// Upstream: pkg/volume/csi TestVerifyExhaustedResource (v1.36).
func TestExhausted(t *testing.T) {
	t.Parallel()
	code := func(c codes.Code) *int32 { n := int32(c); return &n }
	for _, tt := range []struct {
		name    string
		driver  string
		failure *storagev1.VolumeError
		before  bool // it failed before the volume was wanted
		want    bool
	}{
		{name: "no attachment", driver: limitedName},
		{name: "no failure", driver: limitedName, failure: &storagev1.VolumeError{}},
		{
			name: "another failure", driver: limitedName,
			failure: &storagev1.VolumeError{Message: "no", ErrorCode: code(codes.Internal)},
		},
		{name: "a failure without a code", driver: limitedName, failure: &storagev1.VolumeError{Message: "no"}},
		{name: "no place", driver: limitedName, failure: &storagev1.VolumeError{
			Message:   "no",
			ErrorCode: code(codes.ResourceExhausted),
		}, want: true},
		{
			name: "no place, long ago", driver: limitedName,
			failure: &storagev1.VolumeError{Message: "no", ErrorCode: code(codes.ResourceExhausted)}, before: true,
		},
		{
			name: "a driver that is not asked again", driver: "other.example.com",
			failure: &storagev1.VolumeError{Message: "no", ErrorCode: code(codes.ResourceExhausted)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, d := withLimit(t, 3)
			spec := &plugins.Spec{PersistentVolume: persistent("pv", tt.driver, "h")}
			since := w.Host.Now()
			if tt.failure != nil {
				a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName("h", tt.driver, node1)}}
				a.Spec.Attacher, a.Spec.NodeName = tt.driver, node1
				a.Spec.Source.PersistentVolumeName = &spec.PersistentVolume.Name
				a, err := w.User.StorageV1().VolumeAttachments().Create(t.Context(), a, metav1.CreateOptions{})
				w.NoError(err)
				if tt.failure.Message != "" {
					tt.failure.Time = metav1.NewTime(since.Add(time.Second))
					if tt.before {
						tt.failure.Time = metav1.NewTime(since)
					}
					a.Status.AttachError = tt.failure
				}
				_, err = w.User.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, metav1.UpdateOptions{})
				w.NoError(err)
			}
			d.limit = 2
			var got bool
			w.NoError(w.do(func(ctx context.Context) (err error) {
				got, err = w.plugin.Exhausted(ctx, spec, since)
				return err
			}))
			if limited := w.plugin.Limited(spec); got != tt.want || limited != (tt.driver == limitedName) {
				t.Errorf("exhausted: %v, want %v; limited: %v", got, tt.want, limited)
			}
			if n := w.allocatable(); (n == 2) != tt.want {
				t.Errorf("the CSINode has %d: want it to be brought up to date: %v", n, tt.want)
			}
		})
	}
}
