package cluster

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/scheduler"
)

// schedulerComponents returns the scheduler. Extenders that are not in the map are asked by HTTP.
func schedulerComponents(configuration *configv1.KubeSchedulerConfiguration, extenders map[string]*endpoint.Endpoint) []recipe {
	return []recipe{{name: "scheduler", replaces: "kube-scheduler", filters: schedulerFilters, advisory: schedulerAdvisory, start: func(p ComponentContext) error {
		_, err := scheduler.New(scheduler.Config{
			Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, Recorder: p.Recorder("default-scheduler"),
			Configuration: configuration, Extenders: extenders,
		})
		return err
	}}}
}

// schedulerFilters drops what concerns attach limits where there are none, drivers whose capacity does not
// matter, and the changes of objects that decide about pods but make none schedulable.
func schedulerFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	limits := func(obj fake.Object) bool { return obj != nil && scheduler.HasLimits(obj.(*storagev1.CSINode)) }
	publishes := func(obj fake.Object) bool {
		return obj != nil && ptr.Deref(obj.(*storagev1.CSIDriver).Spec.StorageCapacity, false)
	}
	matters := func(obj fake.Object) bool { // the capacity of a class whose claims wait for the scheduler, or whose class is not known yet
		if obj == nil {
			return false
		}
		storage := caches().Storage().V1()
		class, err := storage.StorageClasses().Lister().Get(obj.(*storagev1.CSIStorageCapacity).StorageClassName)
		if err != nil {
			return true
		}
		if ptr.Deref(class.VolumeBindingMode, "") != storagev1.VolumeBindingWaitForFirstConsumer {
			return false
		}
		driver, err := storage.CSIDrivers().Lister().Get(class.Provisioner)
		return err == nil && publishes(driver)
	}
	counts := func(obj fake.Object) bool {
		return obj != nil && scheduler.CountsAgainstLimit(caches(), obj.(*storagev1.VolumeAttachment))
	}
	filters := []fake.Filter{
		{Resource: "csidrivers", Match: func(old, new fake.Object) bool { return publishes(old) || publishes(new) }},
		{Resource: "csistoragecapacities", Match: func(old, new fake.Object) bool { return matters(old) || matters(new) }},
		{Resource: "csinodes", Match: func(old, new fake.Object) bool { return limits(old) || limits(new) }},
		{Resource: "volumeattachments", Match: func(old, new fake.Object) bool {
			return old == nil && counts(new) ||
				new == nil && counts(old) // the content of an attachment does not matter
		}},
	}
	for _, resource := range schedulerAdvisory {
		filters = append(filters, fake.Filter{Resource: resource, Match: func(_, _ fake.Object) bool { return false }})
	}
	return filters
}

// schedulerAdvisory are the objects by which the scheduler knows which pods belong together, and labels of
// namespaces. They make no pod schedulable.
var schedulerAdvisory = []string{"services", "replicationcontrollers", "replicasets", "statefulsets", "namespaces"}
