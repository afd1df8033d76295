package cluster_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// Outcomes of volumes: served, or refused with upstream's text.
const (
	served   = ""
	noPlugin = "failed to get Plugin from volumeSpec for volume %q err=no volume plugin matched"
)

// A volumeKind is a field of VolumeSource or PersistentVolumeSource.
type volumeKind struct {
	source string // in YAML
	want   string // served, or part of the text of the event, with %q for the volume's name
	retry  bool   // the mount is tried again indefinitely; the event is counted
	driver string // CSI driver that attaches the volume
}

// inlineKinds are the kinds that a pod can have in its manifest.
var inlineKinds = map[string]volumeKind{
	"awsElasticBlockStore":  {source: "volumeID: vol-1", driver: "ebs.csi.aws.com"},
	"azureDisk":             {source: "diskName: a, diskURI: /subscriptions/a/resourceGroups/b/providers/Microsoft.Compute/disks/c, kind: Managed", driver: "disk.csi.azure.com"},
	"azureFile":             {source: "secretName: s, shareName: a", driver: "file.csi.azure.com"},
	"cephfs":                {source: "monitors: [a]", want: noPlugin},
	"cinder":                {source: "volumeID: a", driver: "cinder.csi.openstack.org"},
	"configMap":             {source: "name: files", want: served},
	"csi":                   {source: "driver: array.csi.volsim.dev", retry: true, want: "volume mode \"Ephemeral\" not supported by driver array.csi.volsim.dev"},
	"downwardAPI":           {source: "items: [{path: name, fieldRef: {fieldPath: metadata.name}}]", want: served},
	"emptyDir":              {source: "", want: served},
	"ephemeral":             {source: "volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}", want: served},
	"fc":                    {source: "targetWWNs: [a], lun: 0", want: noPlugin},
	"flexVolume":            {source: "driver: example.com/none", want: noPlugin},
	"flocker":               {source: "datasetName: a", want: noPlugin},
	"gcePersistentDisk":     {source: "pdName: a", driver: "pd.csi.storage.gke.io"},
	"gitRepo":               {source: "repository: 'https://example.com/a.git'", retry: true, want: "MountVolume.SetUp failed for volume %q : git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`"},
	"glusterfs":             {source: "endpoints: a, path: b", want: noPlugin},
	"hostPath":              {source: "path: /srv", want: served},
	"image":                 {source: "reference: a", want: noPlugin},
	"iscsi":                 {source: "targetPortal: 10.0.0.1, iqn: 'iqn.2001-04.com.example:a', lun: 0", want: noPlugin},
	"nfs":                   {source: "server: files, path: /a", want: served},
	"persistentVolumeClaim": {source: "claimName: data", want: served},
	"photonPersistentDisk":  {source: "pdID: a", want: noPlugin},
	"portworxVolume":        {source: "volumeID: a", driver: "pxd.portworx.com"},
	"projected":             {source: "sources: [{configMap: {name: files}}]", want: served},
	"quobyte":               {source: "registry: 'a:1', volume: b", want: noPlugin},
	"rbd":                   {source: "monitors: [a], image: b", want: noPlugin},
	"scaleIO":               {source: "gateway: a, system: b, volumeName: c, secretRef: {name: s}", want: noPlugin},
	"secret":                {source: "secretName: s", want: served},
	"storageos":             {source: "volumeName: a", want: noPlugin},
	"vsphereVolume":         {source: "volumePath: '[a] b'", driver: "csi.vsphere.vmware.com"},
}

// persistentKinds are the kinds of PersistentVolumes.
var persistentKinds = map[string]volumeKind{
	"awsElasticBlockStore": {source: "volumeID: vol-1", driver: "ebs.csi.aws.com"},
	"azureDisk":            {source: "diskName: a, diskURI: /subscriptions/a/resourceGroups/b/providers/Microsoft.Compute/disks/c, kind: Managed", driver: "disk.csi.azure.com"},
	"azureFile":            {source: "secretName: s, shareName: a", driver: "file.csi.azure.com"},
	"cephfs":               {source: "monitors: [a]", want: noPlugin},
	"cinder":               {source: "volumeID: a", driver: "cinder.csi.openstack.org"},
	"csi":                  {source: "driver: other.example.com, volumeHandle: a", driver: "other.example.com"},
	"fc":                   {source: "targetWWNs: [a], lun: 0", want: noPlugin},
	"flexVolume":           {source: "driver: example.com/none", want: noPlugin},
	"flocker":              {source: "datasetName: a", want: noPlugin},
	"gcePersistentDisk":    {source: "pdName: a", driver: "pd.csi.storage.gke.io"},
	"glusterfs":            {source: "endpoints: a, path: b", want: noPlugin},
	"hostPath":             {source: "path: /srv", want: served},
	"iscsi":                {source: "targetPortal: 10.0.0.1, iqn: 'iqn.2001-04.com.example:a', lun: 0", want: noPlugin},
	"local":                {source: "path: /disk", want: served},
	"nfs":                  {source: "server: files, path: /a", want: served},
	"photonPersistentDisk": {source: "pdID: a", want: noPlugin},
	"portworxVolume":       {source: "volumeID: a", driver: "pxd.portworx.com"},
	"quobyte":              {source: "registry: 'a:1', volume: b", want: noPlugin},
	"rbd":                  {source: "monitors: [a], image: b", want: noPlugin},
	"scaleIO":              {source: "gateway: a, system: b, volumeName: c, secretRef: {name: s}", want: noPlugin},
	"storageos":            {source: "volumeName: a", want: noPlugin},
	"vsphereVolume":        {source: "volumePath: '[a] b'", driver: "csi.vsphere.vmware.com"},
}

const kindPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  volumes: [{name: v, %[2]s: {%[3]s}}]
  containers: [{name: main, image: image, volumeMounts: [{name: v, mountPath: /v}]}]
`

const kindVolume = `
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  storageClassName: ""
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: default, name: %[1]s}
  %[2]s: {%[3]s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {storageClassName: "", volumeName: %[1]s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

const kindObjects = `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// kindNames returns the kinds of a type of the API.
func kindNames(source any) []string {
	var names []string
	for field := range reflect.TypeOf(source).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// kindManifests returns the pods with a volume of each kind of the API for which want is true, and
// what they use; by name, the kind and how the kubelet names the volume.
func kindManifests(t *testing.T, want func(volumeKind) bool) (manifest string, pods map[string]volumeKind, volumes map[string]string) {
	manifest, pods, volumes = kindObjects, map[string]volumeKind{}, map[string]string{}
	add := func(table map[string]volumeKind, name, pod, volume string) {
		kind, ok := table[name]
		if !ok {
			t.Errorf("kind %s is not in the table", name)
		}
		if !ok || !want(kind) {
			return
		}
		pods[pod], volumes[pod] = kind, volume
		if volume == pod {
			manifest += fmt.Sprintf(kindVolume, pod, name, kind.source)
			name, kind.source = "persistentVolumeClaim", "claimName: "+pod
		}
		manifest += fmt.Sprintf(kindPod, pod, name, kind.source)
	}
	for _, name := range kindNames(corev1.VolumeSource{}) {
		add(inlineKinds, name, "inline-"+strings.ToLower(name), "v")
	}
	for _, name := range kindNames(corev1.PersistentVolumeSource{}) {
		add(persistentKinds, name, "pv-"+strings.ToLower(name), "pv-"+strings.ToLower(name))
	}
	return manifest, pods, volumes
}

// mountEvents returns the messages of the events of failed mounts, by pod.
func mountEvents(c *cluster.Cluster) map[string][]string {
	events := map[string][]string{}
	for _, o := range c.Server().List("events") {
		if e := o.(*corev1.Event); e.Reason == "FailedMount" {
			events[e.InvolvedObject.Name] = append(events[e.InvolvedObject.Name], e.Message)
		}
	}
	return events
}

// TestEveryKindOfVolume has a pod with a volume of each kind of the API in one world that comes to
// rest. Each volume is served, or refused with upstream's text in one event.
func TestEveryKindOfVolume(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 20_000}})
	machine, err := c.Machine("node-1")
	testcheck.NoError(t, err)
	testcheck.NoError(t, machine.FS.MkdirAll(machine.Path("/disk")))
	manifest, pods, volumes := kindManifests(t, func(k volumeKind) bool { return k.driver == "" && !k.retry })
	testcheck.NoError(t, c.Apply(ctx, manifest), c.Run(ctx))
	events := mountEvents(c)
	for name, kind := range pods {
		o, _ := c.Server().Get("pods", "default", name)
		phase, causes, got := o.(*corev1.Pod).Status.Phase, strings.Join(c.PodCauses("default", name), "; "), events[name]
		if kind.want == served {
			if phase != corev1.PodRunning {
				t.Errorf("%s: phase %s, causes %s, events %q", name, phase, causes, got)
			}
			continue
		}
		want := strings.ReplaceAll(kind.want, "%q", strconv.Quote(volumes[name]))
		if phase != corev1.PodPending || len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: phase %s, events %q, want one with %q", name, phase, got, want)
		}
		if kind.want == noPlugin {
			want = "no plugin of kubelet(node-1) supports it"
		}
		if !strings.Contains(causes, want) {
			t.Errorf("%s: causes %s, want %q", name, causes, want)
		}
	}
}

// TestEveryKindThatIsRetried has a pod with a volume of each kind that keeps a world from coming to
// rest. It waits for a CSI driver that does not exist to attach it, or is refused by its plugin. Each
// refusal is one event.
func TestEveryKindThatIsRetried(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 20_000}})
	manifest, pods, volumes := kindManifests(t, func(k volumeKind) bool { return k.driver != "" || k.retry })
	want, got, refused := sets.New[string](), sets.New[string](), 0
	for _, kind := range pods {
		if kind.retry {
			refused++
		} else {
			want.Insert(kind.driver)
		}
	}
	testcheck.NoError(t, c.Apply(ctx, manifest), c.Wait(ctx, "the attachments and events", func() bool {
		for _, o := range c.Server().List("volumeattachments") {
			got.Insert(o.(*storagev1.VolumeAttachment).Spec.Attacher)
		}
		return got.Equal(want) && len(mountEvents(c)) == refused
	}))
	for name, kind := range pods {
		causes, cause := strings.Join(c.PodCauses("default", name), "; "), "driver "+kind.driver+" of volume"
		if kind.retry {
			cause = strings.ReplaceAll(kind.want, "%q", strconv.Quote(volumes[name]))
			if got := mountEvents(c)[name]; len(got) != 1 || !strings.Contains(got[0], cause) {
				t.Errorf("%s: events %q, want one with %q", name, got, cause)
			}
		}
		if !strings.Contains(causes, cause) {
			t.Errorf("%s: causes %s, want %q", name, causes, cause)
		}
	}
}
