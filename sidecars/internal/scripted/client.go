package scripted

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// A RequestFault is the failure of one request for PersistentVolumes: "create", "delete" or
// "patch".
type RequestFault struct {
	Verb  string
	Err   error
	After bool // fail after the request had its effect
}

// A Client is a clientset whose requests for PersistentVolumes fail as scripted, once for each
// fault.
type Client struct {
	kubernetes.Interface
	Faults []RequestFault
	// Before, if not nil, is called before each request.
	Before func(verb string)
}

// CoreV1 returns the group with the faults.
func (c *Client) CoreV1() typedcorev1.CoreV1Interface {
	return core{c.Interface.CoreV1(), c}
}

type core struct {
	typedcorev1.CoreV1Interface
	client *Client
}

// PersistentVolumes returns the resource with the faults.
func (c core) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return volumes{c.CoreV1Interface.PersistentVolumes(), c.client}
}

type volumes struct {
	typedcorev1.PersistentVolumeInterface
	client *Client
}

func (v volumes) Create(
	ctx context.Context, volume *corev1.PersistentVolume, opts metav1.CreateOptions,
) (created *corev1.PersistentVolume, err error) {
	err = v.client.run("create", func() error {
		created, err = v.PersistentVolumeInterface.Create(ctx, volume, opts)
		return err
	})
	return created, err
}

func (v volumes) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return v.client.run("delete", func() error {
		return v.PersistentVolumeInterface.Delete(ctx, name, opts)
	})
}

func (v volumes) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte,
	opts metav1.PatchOptions, subresources ...string,
) (patched *corev1.PersistentVolume, err error) {
	err = v.client.run("patch", func() error {
		patched, err = v.PersistentVolumeInterface.Patch(ctx, name, kind, data, opts, subresources...)
		return err
	})
	return patched, err
}

func (c *Client) run(verb string, request func() error) error {
	if c.Before != nil {
		c.Before(verb)
	}
	for i, f := range c.Faults {
		if f.Verb != verb {
			continue
		}
		c.Faults = append(c.Faults[:i:i], c.Faults[i+1:]...)
		if f.After {
			_ = request()
		}
		return f.Err
	}
	return request()
}
