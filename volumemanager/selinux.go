package volumemanager

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/plugins"
)

// On a node with SELinux, a volume of one pod alone (ReadWriteOncePod) is mounted with the label of the pod's processes, where its
// plugin can do so: then nobody has to label its files one by one. A mount has one label. Pods that need another one wait until
// all that have the volume have left it. The feature gate SELinuxMount has volumes of all access modes mounted so; without it
// they have no label, and conflicts about them are passed over.
//
// What is found on the disk was mounted with the label that its plugin wrote down before it mounted it. The mount itself is not
// asked for its label; upstream's plugin for CSI does not either. A volume with the wrong one is unmounted before the next pod has it.
//
// There is no SELinux behind this: labels are strings. Not here: metrics.

// selinuxLabels is how a volume of a pod is labelled.
type selinuxLabels struct {
	label     string // "": no label
	mount     string // what to mount the volume with
	supported bool   // the plugin can mount the volume with a label
	exclusive bool   // volumes like it are mounted with one label, which all pods that have it must need
}

// labelOf finds out how a volume of a pod is labelled. The error says that the pod's containers need different labels.
//
// Upstream: pkg/volume/util GetMountSELinuxLabel, pkg/kubelet/volumemanager/cache getSELinuxLabel (v1.36).
func (m *Manager) labelOf(pod *corev1.Pod, outerName string, found resolved) (selinuxLabels, error) {
	var l selinuxLabels
	if !m.cfg.SELinux {
		return l, nil
	}
	if found.caps.SELinux != nil {
		var err error
		if l.supported, err = found.caps.SELinux.SupportsSELinuxContextMount(found.spec); err != nil {
			return selinuxLabels{}, err
		}
	}
	labels := labelsOf(pod, outerName)
	l.exclusive = m.mountsLabelled(found.spec)
	switch {
	case labels.Len() > 1 && !l.exclusive:
		return selinuxLabels{}, nil
	case labels.Len() > 1:
		return selinuxLabels{}, unusable("multiple SELinux labels found: %s", strings.Join(sets.List(labels), ","))
	case labels.Len() == 0 || !l.supported || relabelsFiles(pod):
		return l, nil
	}
	l.label = sets.List(labels)[0]
	if l.exclusive {
		l.mount = l.label
	}
	return l, nil
}

// relabelsFiles tells whether a pod wants its volumes' files labelled one by one.
func relabelsFiles(pod *corev1.Pod) bool {
	security := pod.Spec.SecurityContext
	return security != nil && security.SELinuxChangePolicy != nil && *security.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive
}

// mountsLabelled tells whether a volume, by its access modes, is one that is mounted with a label.
//
// Upstream: pkg/volume/util VolumeSupportsSELinuxMount (v1.36).
func (m *Manager) mountsLabelled(spec *plugins.Spec) bool {
	pv := spec.PersistentVolume
	if pv == nil || m.cfg.SELinuxMount {
		return pv != nil
	}
	return len(pv.Spec.AccessModes) == 1 && pv.Spec.AccessModes[0] == corev1.ReadWriteOncePod
}

// labelsOf are the labels of those containers of a pod that mount a volume. What a container says goes before what its pod says.
//
// Upstream: pkg/volume/util GetPodVolumeNames (v1.36).
func labelsOf(pod *corev1.Pod, outerName string) sets.Set[string] {
	labels := sets.New[string]()
	look := func(security *corev1.SecurityContext, mounts []corev1.VolumeMount) {
		var options *corev1.SELinuxOptions
		if pod.Spec.SecurityContext != nil {
			options = pod.Spec.SecurityContext.SELinuxOptions
		}
		if security != nil && security.SELinuxOptions != nil {
			options = security.SELinuxOptions
		}
		for i := range mounts {
			if mounts[i].Name == outerName && options != nil {
				labels.Insert(fileLabel(options))
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		look(pod.Spec.InitContainers[i].SecurityContext, pod.Spec.InitContainers[i].VolumeMounts)
	}
	for i := range pod.Spec.Containers {
		look(pod.Spec.Containers[i].SecurityContext, pod.Spec.Containers[i].VolumeMounts)
	}
	for i := range pod.Spec.EphemeralContainers {
		look(pod.Spec.EphemeralContainers[i].SecurityContext, pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	return labels
}

// fileLabel is the label of the files that a process with the given options may use: what the options leave open is as on Fedora.
//
// Differs: without a level, upstream's is drawn for each volume; here it is always the same.
//
// Upstream: pkg/volume/util SELinuxOptionsToFileLabel (v1.36).
func fileLabel(options *corev1.SELinuxOptions) string {
	fileType := options.Type
	if fileType == "" || fileType == "container_t" {
		fileType = "container_file_t"
	}
	return strings.Join([]string{
		cmp.Or(options.User, "system_u"), cmp.Or(options.Role, "object_r"), fileType, cmp.Or(options.Level, "s0:c998,c999"),
	}, ":")
}

// conflict tells why a pod cannot have a volume that another pod here has with another label.
//
// Upstream: pkg/kubelet/volumemanager/cache AddPodToVolume (v1.36).
func (v *desiredVolume) conflict(l selinuxLabels, spec *plugins.Spec) error {
	if !l.supported || l.label == v.labelled.label || !l.exclusive {
		return nil
	}
	return unusable("conflicting SELinux labels of volume %s: %q and %q", spec.Name(), v.labelled.label, l.label)
}

// mislabelled tells whether the volume is mounted here with another label than the one it is wanted with.
//
// Upstream: pkg/kubelet/volumemanager/cache PodExistsInVolume (v1.36).
func (v *actualVolume) mislabelled(wanted *desiredVolume) bool {
	return wanted != nil && v != nil && v.label != wanted.labelled.mount && (v.device != notMounted || len(v.pods) > 0)
}

// setLabel notes with which label the volume is being mounted, if nothing of it is mounted yet.
func (v *actualVolume) setLabel(wanted *desiredVolume) {
	if v.device == notMounted && len(v.pods) == 0 {
		v.label = wanted.labelled.mount
	}
}

// foundLabel notes with which label a volume that was found on the disk is mounted. No label is what a pod may have said that
// never got so far.
//
// Upstream: pkg/kubelet/volumemanager/cache SetDeviceMountState (v1.36).
func (v *actualVolume) foundLabel(label string) {
	if label != "" && v.reconstructed {
		v.label = label
	}
}

// reportMislabelled tells pods that want a volume that they wait until it is not mounted with another label any more.
//
// Upstream: pkg/kubelet/volumemanager/cache newSELinuxMountMismatchError (v1.36).
func (m *Manager) reportMislabelled(v *desiredVolume) {
	why := fmt.Errorf("waiting for unmount of volume %q, because it is already mounted to a different pod with a different SELinux label", v.name)
	for _, uid := range v.podsAfter("") {
		if p := m.desired.pods[uid]; p != nil {
			p.failed(v.pods[uid].outerName, why)
			m.reportWait(p)
			m.cfg.PodChanged(uid)
		}
	}
}
