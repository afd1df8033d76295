package cluster

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addDriverObjects creates the CSIDrivers and classes of all drivers. An administrator creates those of
// the driver of Config.Devices, unless the world begins with them.
func (c *Cluster) addDriverObjects(cfg Config) error {
	switch {
	case cfg.WithoutDriver:
	case cfg.Components == nil && !cfg.PreRegistered:
		c.createDefaults()
	default:
		if err := c.server.Add(c.csiDriver(), c.storageClass()); err != nil {
			return err
		}
		if err := c.addSnapshotClasses(c.drivers[0]); err != nil {
			return err
		}
	}
	for _, d := range c.drivers {
		if d.builtIn {
			continue
		}
		if err := c.server.Add(d.objects()...); err != nil {
			return fmt.Errorf("driver %s: %w", d.Name, err)
		}
		if err := c.addSnapshotClasses(d); err != nil {
			return err
		}
	}
	return nil
}

// createDefaults starts the administrator, which creates the CSIDriver object and the default storage
// class, and those of snapshots.
func (c *Cluster) createDefaults() {
	admin := c.host.Process("admin")
	client := c.server.Client(admin)
	admin.User("", func(ctx context.Context) {
		_, err := client.StorageV1().CSIDrivers().Create(ctx, c.csiDriver(), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			_, err = client.StorageV1().StorageClasses().Create(ctx, c.storageClass(), metav1.CreateOptions{})
		}
		if err == nil || apierrors.IsAlreadyExists(err) {
			err = createSnapshotClasses(ctx, client.Dynamic(), c.drivers[0])
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			panic(fmt.Sprintf("cluster: create defaults: %v", err))
		}
	})
}

// allocatablePeriod is how often kubelets ask a driver with a limit how many volumes their nodes
// can have.
const allocatablePeriod = time.Minute

func (c *Cluster) csiDriver() *storagev1.CSIDriver {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: c.driver.name()}}
	if c.selinuxMount {
		driver.Spec.SELinuxMount = &c.selinuxMount
	}
	if c.storageCapacity > 0 {
		published := true
		driver.Spec.StorageCapacity = &published
	}
	if c.hasVolumeLimit {
		seconds := int64(allocatablePeriod / time.Second)
		driver.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
	}
	return driver
}

func (c *Cluster) storageClass() *storagev1.StorageClass {
	grows := true
	class := &storagev1.StorageClass{
		AllowVolumeExpansion: &grows,
		ObjectMeta: metav1.ObjectMeta{
			Name: ClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: c.driver.name(),
	}
	if c.driver.topology() {
		late := storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &late
	}
	return class
}
