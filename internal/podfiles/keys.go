package podfiles

import (
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errNoMode has upstream's text. The API server sets the default.
var errNoMode = errors.New("no defaultMode used, not even the default value for it")

// keys are the keys of a config map or secret that become files.
type keys struct {
	object   string             // in the pod's namespace
	items    []corev1.KeyToPath // none: every key is a file of that name
	optional *bool
}

// isOptional reports whether the object, and each key, may be missing.
func (k keys) isOptional() bool { return k.optional != nil && *k.optional }

// readError returns the error of reading the object; nil for a missing one that is optional. It is in
// the words of upstream's cache, which names the kind and not the resource.
//
// Upstream: pkg/kubelet/util/manager objectCache.Get (v1.36).
func (k keys) readError(err error, kind string) error {
	switch {
	case !apierrors.IsNotFound(err):
		return err
	case k.isOptional():
		return nil
	default:
		return apierrors.NewNotFound(corev1.Resource(kind), k.object)
	}
}

// files returns the files of the keys. missing is the format of the error for a missing key.
func (k keys) files(all map[string][]byte, mode *int32, missing string) (Payload, error) {
	if mode == nil {
		return nil, errNoMode
	}
	files := make(Payload, len(all))
	if len(k.items) == 0 {
		for key, data := range all { // independent of the order
			files[key] = File{Data: data, Mode: fs.FileMode(*mode)}
		}
		return files, nil
	}
	for _, item := range k.items {
		data, ok := all[item.Key]
		switch {
		case ok:
			files[item.Path] = File{Data: data, Mode: modeOr(item.Mode, *mode)}
		case !k.isOptional():
			return nil, fmt.Errorf(missing, item.Key)
		}
	}
	return files, nil
}

// modeOr returns the permissions of a file: its own, or the default of the volume.
func modeOr(own *int32, otherwise int32) fs.FileMode {
	if own != nil {
		return fs.FileMode(*own)
	}
	return fs.FileMode(otherwise)
}
