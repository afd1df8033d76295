package csi_test

import (
	"context"
	"errors"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

func (s *stub) NodeExpandVolume(
	_ context.Context, r *csispec.NodeExpandVolumeRequest,
) (*csispec.NodeExpandVolumeResponse, error) {
	s.requests = append(s.requests, r)
	return &csispec.NodeExpandVolumeResponse{}, s.expandError
}

func (d *disk) expand() error {
	d.Helper()
	return d.do(func(ctx context.Context) error {
		return d.plugin.NodeExpand(ctx, plugins.ExpandOptions{
			Spec: d.spec, Pod: d.pod.UID,
			NewSize: resource.MustParse("20Gi"),
		})
	})
}

const (
	stages  = csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	expands = csispec.NodeServiceCapability_RPC_EXPAND_VOLUME
)

// TestExpand expands the volume at the pod's path.
func TestExpand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		can    []csispec.NodeServiceCapability_RPC_Type
		block  bool
		secret bool
	}{
		{"a driver that stages", []csispec.NodeServiceCapability_RPC_Type{expands, stages}, false, false},
		{"a driver that does not stage", []csispec.NodeServiceCapability_RPC_Type{expands}, false, false},
		{"a device", []csispec.NodeServiceCapability_RPC_Type{expands}, true, false},
		{"with a secret", []csispec.NodeServiceCapability_RPC_Type{expands, stages}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := capableDisk(t, tt.can...)
			path, staging := d.plugin.MountPath(d.spec, d.pod.UID), d.globalMount()
			if tt.block {
				mode := corev1.PersistentVolumeBlock
				d.spec.PersistentVolume.Spec.VolumeMode = &mode
				path = root + "/plugins/kubernetes.io/csi/volumeDevices/publish/pv/uid-1"
				staging = root + "/plugins/kubernetes.io/csi/volumeDevices/staging/pv"
			}
			var secrets map[string]string
			if tt.secret {
				d.spec.PersistentVolume.Spec.CSI.NodeExpandSecretRef = &corev1.SecretReference{Namespace: "default", Name: "expand"}
				if err := d.expand(); err == nil {
					t.Error("grown without its secret")
				}
				d.secret("default", "expand", "user", "alice")
				secrets = map[string]string{"user": "alice"}
			}
			d.NoError(d.expand())
			r := last[*csispec.NodeExpandVolumeRequest](s)
			testcheck.Equal(d, "volume, path, staging", []string{"h-1", path, staging},
				[]string{r.GetVolumeId(), r.GetVolumePath(), r.GetStagingTargetPath()})
			testcheck.Equal(d, "size", int64(20<<30), r.GetCapacityRange().GetRequiredBytes())
			testcheck.Equal(d, "as a device", tt.block, r.GetVolumeCapability().GetBlock() != nil)
			testcheck.Equal(d, "secrets", secrets, r.GetSecrets())
		})
	}
}

// TestExpandFails translates the driver's errors.
func TestExpandFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		can  []csispec.NodeServiceCapability_RPC_Type
		err  error
		is   error
		want plugins.Class
		text string
	}{
		{
			"the driver does not", nil, nil, plugins.ErrUnsupported, plugins.Final,
			"NodeExpand is not supported by the CSI driver stub.example.com",
		},
		{
			"in use",
			[]csispec.NodeServiceCapability_RPC_Type{expands},
			status.Error(codes.FailedPrecondition, "busy"), plugins.ErrExpandInUse, plugins.Final,
			"Expander.NodeExpand failed to expand the volume : rpc error: code = FailedPrecondition desc = busy",
		},
		{
			"infeasible",
			[]csispec.NodeServiceCapability_RPC_Type{expands},
			status.Error(codes.InvalidArgument, "no"), plugins.ErrExpandInfeasible,
			plugins.Final, "Expander.NodeExpand failed to expand the volume rpc error: code = InvalidArgument desc = no",
		},
		{
			"out of range",
			[]csispec.NodeServiceCapability_RPC_Type{expands},
			status.Error(codes.OutOfRange, "no"), plugins.ErrExpandInfeasible,
			plugins.Final, "Expander.NodeExpand failed to expand the volume rpc error: code = OutOfRange desc = no",
		},
		{
			"not found",
			[]csispec.NodeServiceCapability_RPC_Type{expands},
			status.Error(codes.NotFound, "no"), plugins.ErrExpandInfeasible,
			plugins.Final, "Expander.NodeExpand failed to expand the volume rpc error: code = NotFound desc = no",
		},
		{
			"another final error",
			[]csispec.NodeServiceCapability_RPC_Type{expands},
			status.Error(codes.Internal, "no"), nil,
			plugins.Final, "Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc = no",
		},
		{
			"no answer",
			[]csispec.NodeServiceCapability_RPC_Type{expands},
			status.Error(codes.DeadlineExceeded, "slow"), nil,
			plugins.Uncertain, "Expander.NodeExpand failed to expand the volume : rpc error: code = DeadlineExceeded desc = slow",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := capableDisk(t, tt.can...)
			s.expandError = tt.err
			err := d.expand()
			if err == nil {
				t.Fatal("no error")
			}
			testcheck.Equal(d, "text", tt.text, err.Error())
			testcheck.Equal(d, "class", tt.want.String(), plugins.ClassOf(err).String())
			for _, class := range []error{plugins.ErrUnsupported, plugins.ErrExpandInUse, plugins.ErrExpandInfeasible} {
				testcheck.Equal(d, "matches "+class.Error(), class == tt.is, errors.Is(err, class))
			}
		})
	}
}

// TestExpandWaitsForTheDriver returns a transient error: the driver may register later.
func TestExpandWaitsForTheDriver(t *testing.T) {
	t.Parallel()
	_, d := capableDisk(t, expands)
	d.spec.PersistentVolume.Spec.CSI.Driver = "absent.example.com"
	testcheck.Equal(d, "class", plugins.Transient.String(), plugins.ClassOf(d.expand()).String())
	if !(&csi.Plugin{}).RequiresFSResize() {
		t.Error("it is for the driver to say whether it does anything on the node")
	}
}
