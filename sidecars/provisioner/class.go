package provisioner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

const (
	reservedPrefix = "csi.storage.k8s.io/"
	fsTypeKey      = reservedPrefix + "fstype"
	fsTypeOldKey   = "fstype" // case-insensitive

	// fsTypeDefault is the file system type for a class without one.
	//
	// Upstream: external-provisioner --default-fstype, which is empty by default and ext4 in nearly
	// every deployment.
	fsTypeDefault = "ext4"
)

// secretOperations lists the operations for which a class may name a secret; "" is the secret for
// all.
var secretOperations = []string{
	"", "provisioner-", "controller-publish-", "node-stage-", "node-publish-",
	"controller-expand-", "node-expand-", "controller-modify-",
}

// parameters holds a class's parameters: those for the provisioner and those for the driver.
type parameters struct {
	fsType    string
	forDriver map[string]string
}

// parse reads a class's parameters. Unknown keys with the reserved prefix and two file system types
// are errors.
//
// Upstream: external-provisioner pkg/controller prepareProvision, removePrefixedParameters (6.3.0).
func parse(class *storagev1.StorageClass) (parameters, error) {
	p := parameters{forDriver: map[string]string{}}
	found := 0
	for _, key := range slices.Sorted(maps.Keys(class.Parameters)) {
		value := class.Parameters[key]
		isFSType := key == fsTypeKey || strings.EqualFold(key, fsTypeOldKey)
		if isFSType {
			p.fsType = value
			found++
		}
		switch {
		case !strings.HasPrefix(key, reservedPrefix):
			p.forDriver[key] = value
		case !isFSType && !namesSecret(key):
			return parameters{}, fmt.Errorf("failed to strip CSI Parameters of prefixed keys: "+
				"found unknown parameter key %q with reserved namespace %s", key, reservedPrefix)
		}
	}
	if found > 1 {
		return parameters{}, fmt.Errorf("fstype specified in parameters with both \"fstype\" and %q keys", fsTypeKey)
	}
	if p.fsType == "" {
		p.fsType = fsTypeDefault
	}
	return p, nil
}

func namesSecret(key string) bool {
	rest := strings.TrimPrefix(key, reservedPrefix)
	return slices.ContainsFunc(secretOperations, func(operation string) bool {
		return rest == operation+"secret-name" || rest == operation+"secret-namespace"
	})
}

// class returns the class of a claim, or nil if it does not exist.
func (c *Controller) class(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	class, err := c.classes.Get(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if err != nil {
		return nil
	}
	return class
}

// classChanged queues the claims of a class.
func (c *Controller) classChanged(_, class *storagev1.StorageClass) {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		panic("provisioner: list claims: " + err.Error())
	}
	var waiting []claimKey
	for _, claim := range claims {
		mine := provisionerOf(claim) == c.cfg.DriverName && claim.Spec.VolumeName == ""
		if mine && storagehelpers.GetPersistentVolumeClaimClass(claim) == class.Name {
			waiting = append(waiting, keyOf(claim))
		}
	}
	slices.SortFunc(waiting, func(a, b claimKey) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range waiting {
		c.claimQueue.Add(key)
	}
}
