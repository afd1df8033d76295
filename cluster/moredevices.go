package cluster

import (
	"fmt"

	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/plugins/nodefs"
)

// moreDrivers returns the drivers of Config.MoreDevices.
func (d *blockDriver) moreDrivers() []Driver {
	drivers := make([]Driver, len(d.more))
	for i := range d.more {
		drivers[i] = d.more[i].asDriver()
	}
	return drivers
}

// asDriver returns the driver of a pool, with a class of the kind's name.
func (d *blockPool) asDriver() Driver {
	grows := true
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: string(d.kind)}, AllowVolumeExpansion: &grows}
	if d.hasTopology {
		late := storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &late
	}
	return Driver{
		Name:       d.driverName,
		Controller: func(DriverNode) (func(grpc.ServiceRegistrar), error) { return d.controller, nil },
		Node: func(at DriverNode) (func(grpc.ServiceRegistrar), error) {
			disk, is := at.Disk.(*nodefs.Real)
			if !is {
				return nil, fmt.Errorf("disk of %s: %T is no directory of this machine", at.Name, at.Disk)
			}
			return d.nodeServices(at.Name, disk), nil
		},
		Sidecars: Sidecars{StrictTopology: d.hasTopology},
		Classes:  []runtime.Object{class},
	}
}
