package healthmonitor

import (
	"context"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/sidecars/internal/driver"
)

// A method is the way in which a driver is asked for health.
type method struct {
	// list returns the conditions by volume ID; nil: the driver does not list.
	list func(ctx context.Context, d *driver.Driver) (map[string]volumehealth.Condition, error)
	// listsAbnormal says that a volume that is not listed is healthy.
	listsAbnormal bool
	// get returns the condition of one volume, and whether the driver reports any; nil: it does not.
	get func(ctx context.Context, d *driver.Driver, id string) (c volumehealth.Condition, reported bool, err error)
}

// methodOf returns the method for a driver's capabilities. Health of CSI 1.13 is preferred to the
// volume condition of earlier versions, and a list to single volumes.
//
// Differs: upstream has volume conditions only.
//
// Upstream: external-health-monitor cmd/csi-external-health-monitor-controller (0.18).
func methodOf(capabilities driver.Capabilities) method {
	hasCondition := capabilities[volumehealth.ControllerCapability]
	switch {
	case capabilities[volumehealth.ListHealth]:
		return method{list: listHealth, listsAbnormal: true}
	case capabilities[volumehealth.GetHealth]:
		return method{get: getHealth}
	case hasCondition && capabilities[csispec.ControllerServiceCapability_RPC_LIST_VOLUMES]:
		return method{list: listConditions}
	case hasCondition && capabilities[csispec.ControllerServiceCapability_RPC_GET_VOLUME]:
		return method{get: getCondition}
	default:
		return method{}
	}
}

func listHealth(ctx context.Context, d *driver.Driver) (map[string]volumehealth.Condition, error) {
	return volumehealth.List(ctx, d.Conn)
}

func getHealth(ctx context.Context, d *driver.Driver, id string) (volumehealth.Condition, bool, error) {
	condition, err := volumehealth.Get(ctx, d.Conn, id)
	return condition, true, err
}

// listConditions returns the volume conditions.
//
// Upstream: external-health-monitor pkg/csi-handler ControllerListVolumeConditions (0.18).
func listConditions(ctx context.Context, d *driver.Driver) (map[string]volumehealth.Condition, error) {
	conditions := map[string]volumehealth.Condition{}
	for token := ""; ; {
		response, err := d.ListVolumes(ctx, &csispec.ListVolumesRequest{StartingToken: token})
		if err != nil {
			return nil, err
		}
		for _, each := range response.GetEntries() {
			// A volume without a condition is normal, as upstream takes it.
			conditions[each.GetVolume().GetVolumeId()], _ = volumehealth.Retired(each.GetStatus())
		}
		if token = response.GetNextToken(); token == "" {
			return conditions, nil
		}
	}
}

// getCondition returns the condition of one volume. Without one it is normal.
//
// Upstream: external-health-monitor pkg/csi-handler ControllerGetVolumeCondition (0.18).
func getCondition(ctx context.Context, d *driver.Driver, id string) (volumehealth.Condition, bool, error) {
	response, err := d.ControllerGetVolume(ctx, &csispec.ControllerGetVolumeRequest{VolumeId: id})
	condition, _ := volumehealth.Retired(response.GetStatus())
	return condition, true, err
}
