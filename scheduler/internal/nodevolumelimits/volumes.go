package nodevolumelimits

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
)

// driverVolume identifies a volume: by driver and handle, or by its claim before it is provisioned.
type driverVolume struct {
	driver, handle string
	claim          cache.ObjectName
}

type volumeSet map[driverVolume]struct{}

// addVolumes adds the volumes of a pod that count. The error says what is wrong with a claim; such a
// volume does not count.
//
// Upstream: plugins/nodevolumelimits filterAttachableVolumes, checkAttachableInlineVolume (v1.36).
func (p *Plugin) addVolumes(to volumeSet, pod *corev1.Pod) error {
	var first error
	for i := range pod.Spec.Volumes {
		v, counts, err := p.volumeOf(pod, &pod.Spec.Volumes[i])
		if counts {
			to[v] = struct{}{}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (p *Plugin) volumeOf(pod *corev1.Pod, volume *corev1.Volume) (v driverVolume, counts bool, err error) {
	name := podclaims.Name(pod, volume)
	if name == "" {
		if !isMigrated(volume) {
			return v, false, nil
		}
		v, counts = translated(&plugins.Spec{Volume: volume}, pod.Namespace)
		return v, counts, nil
	}
	claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil {
		return v, false, fmt.Errorf("looking up PVC %s/%s: %w", pod.Namespace, name, err)
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return v, false, err
		}
	}
	v, counts = p.volumeOfClaim(claim)
	return v, counts, nil
}

// volumeOfClaim returns the volume of a claim, bound or still to be provisioned. It returns false if no
// CSI driver handles it.
//
// Upstream: plugins/nodevolumelimits getCSIDriverInfo, getCSIDriverInfoFromSC (v1.36).
func (p *Plugin) volumeOfClaim(claim *corev1.PersistentVolumeClaim) (v driverVolume, counts bool) {
	if claim.Spec.VolumeName != "" {
		if volume, err := p.volumes.Get(claim.Spec.VolumeName); err == nil {
			return translated(&plugins.Spec{PersistentVolume: volume}, "")
		}
	}
	class, err := p.classes.Get(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if err != nil {
		return driverVolume{}, false
	}
	driver := class.Provisioner
	if csiDriver, ok := migrated[driver]; ok {
		driver = csiDriver
	}
	return driverVolume{driver: driver, claim: cache.MetaObjectToName(claim)}, true
}

// volumeAttached returns the volume of an attachment, and false if it is unknown.
//
// Upstream: plugins/nodevolumelimits getNodeVolumeAttachmentInfo (v1.36).
func (p *Plugin) volumeAttached(attachment *storagev1.VolumeAttachment) (v driverVolume, counts bool) {
	name := attachment.Spec.Source.PersistentVolumeName
	if name == nil {
		return driverVolume{}, false
	}
	volume, err := p.volumes.Get(*name)
	if err != nil {
		return driverVolume{}, false
	}
	return translated(&plugins.Spec{PersistentVolume: volume}, "")
}

// migrated are the plugins whose volumes are migrated to CSI drivers.
var migrated = plugins.Migrated()

// translated returns a volume as its CSI driver identifies it. It returns false if no CSI driver
// handles it.
func translated(spec *plugins.Spec, namespace string) (v driverVolume, counts bool) {
	spec, err := migrated.Translate(spec, namespace)
	if err != nil || spec.PersistentVolume == nil || spec.PersistentVolume.Spec.CSI == nil {
		return driverVolume{}, false
	}
	source := spec.PersistentVolume.Spec.CSI
	return driverVolume{driver: source.Driver, handle: source.VolumeHandle}, true
}

// isMigrated reports whether a volume that a pod contains is migrated to a CSI driver.
func isMigrated(volume *corev1.Volume) bool {
	s := &volume.VolumeSource
	return s.AWSElasticBlockStore != nil || s.AzureDisk != nil || s.AzureFile != nil || s.Cinder != nil ||
		s.GCEPersistentDisk != nil || s.PortworxVolume != nil || s.VsphereVolume != nil
}
