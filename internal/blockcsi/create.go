package blockcsi

import (
	"context"
	"maps"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
)

// sidecarPrefix is the prefix of the keys that external-provisioner adds to the class's parameters.
const sidecarPrefix = "csi.storage.k8s.io/"

// CreateVolume returns an existing volume of that name if it matches. An unfinished volume of that
// name is recreated.
func (c *controller) CreateVolume(
	ctx context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	d := c.driver
	if err := d.offer.CheckCreate(request); err != nil {
		return nil, err
	}
	spec := VolumeSpec{
		ID: csireq.VolumeID(request.GetName()), Name: request.GetName(),
		Parameters: ownParameters(request.GetParameters()), Settings: request.GetMutableParameters(),
	}
	if d.cfg.AnyParameters {
		spec.Parameters = nil
	}
	if err := d.cfg.Pools[0].ValidateParameters(spec.Parameters, spec.Settings); err != nil {
		return nil, err
	}
	source := csireq.SourceID(request.GetVolumeContentSource())
	unlock, err := d.locks.lock(ctx, spec.ID, source)
	if err != nil {
		return nil, err
	}
	defer unlock()
	volume, pool, err := d.lookup(ctx, spec.ID)
	switch {
	case status.Code(err) == codes.NotFound:
	case err != nil:
		return nil, err
	case volume.Unfinished:
		if err := pool.Delete(ctx, volume); err != nil {
			return nil, csireq.PathStatus(err)
		}
	default:
		if err := checkSame(volume, pool, request, spec); err != nil {
			return nil, err
		}
		return &csi.CreateVolumeResponse{Volume: d.csiVolume(volume, pool)}, nil
	}
	pools, err := d.choosePools(ctx, request, &spec)
	if err != nil {
		return nil, err
	}
	volume, pool, err = d.createInPools(ctx, pools, spec, request.GetCapacityRange(), request.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: d.csiVolume(volume, pool)}, nil
}

// choosePools returns the candidate pools in order, and sets the source of the volume.
func (d *Driver) choosePools(ctx context.Context, request *csi.CreateVolumeRequest, spec *VolumeSpec) ([]Pool, error) {
	pools := d.accessible(request.GetAccessibilityRequirements())
	source := csireq.SourceID(request.GetVolumeContentSource())
	if source == "" {
		if len(pools) == 0 {
			return nil, status.Error(codes.ResourceExhausted,
				"accessibility_requirements: this driver serves none of the nodes")
		}
		return pools, nil
	}
	from, home, err := d.find(ctx, source)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		if pool == home {
			spec.From = &from
			return []Pool{home}, nil
		}
	}
	return nil, status.Errorf(codes.ResourceExhausted, "%s is on node %s, which accessibility_requirements excludes",
		source, home.Node())
}

// createInPools creates a volume in the first pool with room for it.
func (d *Driver) createInPools(
	ctx context.Context, pools []Pool, spec VolumeSpec, wanted *csi.CapacityRange, capabilities []*csi.VolumeCapability,
) (Volume, Pool, error) {
	var failed error
	for _, pool := range pools {
		size, err := sizesFor(pool, spec, capabilities).Choose(wanted)
		if err != nil {
			return Volume{}, nil, err
		}
		spec.SizeBytes = size
		volume, err := d.create(ctx, pool, spec)
		if err == nil {
			d.remember(spec.ID, pool)
			return volume, pool, nil
		}
		if failed = csireq.PathStatus(err); status.Code(failed) != codes.ResourceExhausted {
			break
		}
	}
	return Volume{}, nil, failed
}

// create creates an empty volume or a copy.
func (d *Driver) create(ctx context.Context, pool Pool, spec VolumeSpec) (Volume, error) {
	if spec.From != nil {
		return d.copy(ctx, pool, *spec.From, spec)
	}
	return pool.Create(ctx, spec)
}

// sizesFor returns the size rules of a volume: those of its pool, its file systems and its source.
func sizesFor(pool PoolInfo, spec VolumeSpec, capabilities []*csi.VolumeCapability) csireq.Sizes {
	sizes := pool.Sizes(spec.Parameters)
	for _, capability := range capabilities {
		sizes.Min = max(sizes.Min, fsBytesMin[capability.GetMount().GetFsType()])
	}
	if spec.From != nil {
		sizes.Min = max(sizes.Min, spec.From.SizeBytes)
		sizes.Default = sizes.Min
	}
	return sizes
}

// checkSame returns AlreadyExists if the existing volume of that name differs from the requested
// one.
func checkSame(volume Volume, pool PoolInfo, request *csi.CreateVolumeRequest, spec VolumeSpec) error {
	if _, err := sizesFor(pool, spec, request.GetVolumeCapabilities()).Choose(request.GetCapacityRange()); err != nil {
		return err
	}
	if err := csireq.CheckExisting(spec.Name, volume.SizeBytes, request.GetCapacityRange()); err != nil {
		return err
	}
	source := csireq.SourceID(request.GetVolumeContentSource())
	switch {
	case volume.Source != source:
		return status.Errorf(codes.AlreadyExists,
			"volume %q exists with source %q, requested source is %q (empty: none)", spec.Name, volume.Source, source)
	case !maps.Equal(volume.Parameters, spec.Parameters) && len(volume.Parameters)+len(spec.Parameters) > 0:
		return status.Errorf(codes.AlreadyExists, "volume %q exists with parameters %v, requested are %v", spec.Name,
			volume.Parameters, spec.Parameters)
	}
	return nil
}

// ownParameters returns the parameters of a class without those for sidecars.
func ownParameters(parameters map[string]string) map[string]string {
	parameters = maps.Clone(parameters)
	maps.DeleteFunc(parameters, func(key, _ string) bool { return strings.HasPrefix(key, sidecarPrefix) })
	return parameters
}

// mergeSettings returns settings with changes applied.
func mergeSettings(settings, changes map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, settings)
	maps.Copy(all, changes)
	return all
}

// csiVolume converts a volume to CSI's type.
func (d *Driver) csiVolume(volume Volume, pool PoolInfo) *csi.Volume {
	all := &csi.Volume{VolumeId: volume.ID, CapacityBytes: volume.SizeBytes, AccessibleTopology: d.topology(pool)}
	switch {
	case volume.Source == "":
	case csireq.IsSnapshotID(volume.Source):
		all.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: volume.Source},
		}}
	default:
		all.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume.Source},
		}}
	}
	return all
}
