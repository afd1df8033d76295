package plugintest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
)

// forgetful is a plugin that deletes nothing.
type forgetful struct{ *hostpath.Plugin }

func (forgetful) Delete(context.Context, *plugins.Spec) error { return nil }

// Check accepts a correct plugin, and reports the violations of a wrong one.
func ExampleCheck() {
	begin := func(wrap func(*hostpath.Plugin) plugins.Plugin) func() (*plugintest.World, error) {
		return func() (*plugintest.World, error) {
			host, disk := sim.NewStepped(sim.SteppedConfig{}), nodefs.NewMemory("/")
			w := &plugintest.World{
				Host: host, Process: host.Process("controller"),
				Resources: func() ([]string, error) {
					if there, err := disk.Exists("/tmp/hostpath_pv"); !there {
						return nil, err
					}
					return disk.ReadDir("/tmp/hostpath_pv")
				},
				Provision: &plugins.ProvisionOptions{
					Name:  "pvc-1",
					Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "1"}},
				},
			}
			for _, name := range []string{"a", "b"} {
				pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
				pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data/" + name}
				w.Volumes = append(w.Volumes, &plugins.Spec{PersistentVolume: pv})
			}
			machine := hostpath.Machine{FS: disk, Root: "/"}
			w.Plugin = wrap(hostpath.New(hostpath.Config{Caller: w.Process, Machine: machine, Provisioning: true}))
			return w, nil
		}
	}
	right := begin(func(p *hostpath.Plugin) plugins.Plugin { return p })
	fmt.Println("hostpath:", plugintest.Check(context.Background(), right))
	wrong := begin(func(p *hostpath.Plugin) plugins.Plugin { return forgetful{p} })
	fmt.Println("forgetful:", plugintest.Check(context.Background(), wrong))
	// Output:
	// hostpath: <nil>
	// forgetful: Delete: leaks resources: extra 1
	// Delete: not idempotent: extra 1
	// Delete: leaks resources after a second Provision: extra 1
	// Delete: deletes another volume: extra 1-other
}
