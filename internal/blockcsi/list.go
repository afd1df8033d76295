package blockcsi

import (
	"context"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/volsim/volsim/internal/csireq"
)

// pooledVolume is a volume with its pool.
type pooledVolume struct {
	Volume
	pool Pool
}

// listAll returns the volumes and snapshots of all pools, sorted by ID, including unfinished ones.
func (d *Driver) listAll(ctx context.Context) ([]pooledVolume, error) {
	var all []pooledVolume
	for _, pool := range d.cfg.Pools {
		volumes, err := pool.Volumes(ctx)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		for _, volume := range volumes {
			all = append(all, pooledVolume{Volume: volume, pool: pool})
		}
	}
	slices.SortFunc(all, func(a, b pooledVolume) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// listComplete returns the complete volumes or snapshots of all pools, sorted by ID.
func (d *Driver) listComplete(ctx context.Context, snapshots bool) ([]pooledVolume, error) {
	all, err := d.listAll(ctx)
	missing := missingMembers(all)
	return slices.DeleteFunc(all, func(each pooledVolume) bool {
		return each.IsSnapshot() != snapshots || each.Unfinished || missing[each.Group] > 0
	}), err
}

// page returns the requested part of a list and the token of the next.
func page(all []pooledVolume, token string, entriesMax int32) ([]pooledVolume, string, error) {
	ids := make([]string, len(all))
	for i, each := range all {
		ids[i] = each.ID
	}
	part, next, err := csireq.Page(ids, token, entriesMax)
	if err != nil || len(part) == 0 {
		return nil, next, err
	}
	from, _ := slices.BinarySearch(ids, part[0])
	return all[from : from+len(part)], next, nil
}

// published returns the nodes that volumes are attached to by volume ID.
func (d *Driver) published(ctx context.Context) (map[string][]string, error) {
	nodes := map[string][]string{}
	if d.cfg.NodeAttaches {
		return nodes, nil
	}
	for _, pool := range d.cfg.Pools {
		attachments, err := pool.Attachments(ctx)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		for _, each := range attachments {
			nodes[each.VolumeID] = append(nodes[each.VolumeID], each.Node)
		}
	}
	return nodes, nil
}

// ListVolumes may omit or still include a volume that is concurrently created or deleted.
func (c *controller) ListVolumes(
	ctx context.Context, request *csi.ListVolumesRequest,
) (*csi.ListVolumesResponse, error) {
	d := c.driver
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	all, err := d.listComplete(ctx, false)
	if err != nil {
		return nil, err
	}
	all, next, err := page(all, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	nodes, err := d.published(ctx)
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, each := range all {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: d.csiVolume(each.Volume, each.pool),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: nodes[each.ID]},
		})
	}
	return response, nil
}

// ControllerGetVolume returns the information of ListVolumes for one volume.
func (c *controller) ControllerGetVolume(
	ctx context.Context, request *csi.ControllerGetVolumeRequest,
) (*csi.ControllerGetVolumeResponse, error) {
	d := c.driver
	if err := csireq.RequireVolumeID(request); err != nil {
		return nil, err
	}
	volume, pool, err := d.find(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	status := &csi.ControllerGetVolumeResponse_VolumeStatus{}
	if !d.cfg.NodeAttaches {
		attached, err := pool.Attachment(ctx, volume)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		if attached != nil {
			status.PublishedNodeIds = []string{attached.Node}
		}
	}
	return &csi.ControllerGetVolumeResponse{Volume: d.csiVolume(volume, pool), Status: status}, nil
}

// GetCapacity returns the free space of all matching pools, and the size of the largest volume that
// fits in one of them.
func (c *controller) GetCapacity(
	ctx context.Context, request *csi.GetCapacityRequest,
) (*csi.GetCapacityResponse, error) {
	d := c.driver
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	response := &csi.GetCapacityResponse{}
	if wanted := request.GetVolumeCapabilities(); len(wanted) > 0 && d.offer.Check(wanted...) != nil {
		return response, nil // what is not supported has no capacity
	}
	parameters := ownParameters(request.GetParameters())
	if d.cfg.AnyParameters {
		parameters = nil
	}
	if d.cfg.Pools[0].ValidateParameters(parameters, nil) != nil {
		return response, nil
	}
	var sizes Capacity
	for _, pool := range d.cfg.Pools {
		if term := request.GetAccessibleTopology(); term != nil && !d.matchesTopology(pool, term) {
			continue
		}
		capacity, err := pool.Capacity(ctx, parameters)
		if err != nil {
			return nil, csireq.PathStatus(err)
		}
		sizes.FreeBytes += capacity.FreeBytes
		if capacity.MaxVolumeBytes >= sizes.MaxVolumeBytes {
			sizes.MaxVolumeBytes, sizes.MinVolumeBytes = capacity.MaxVolumeBytes, capacity.MinVolumeBytes
		}
	}
	response.AvailableCapacity = sizes.FreeBytes
	response.MaximumVolumeSize = wrapperspb.Int64(sizes.MaxVolumeBytes)
	response.MinimumVolumeSize = wrapperspb.Int64(sizes.MinVolumeBytes)
	return response, nil
}
