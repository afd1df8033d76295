// Package populator is a volume populator: it fills the volumes of claims from objects of kind Hello.
//
//	c, err := cluster.New(cluster.Config{
//		CRDDirectoryPaths: []string{"hello.yaml"}, VolumePopulators: true,
//		Extra: []cluster.Component{populator.Component(populator.Patient)},
//	})
//	err = c.Apply(ctx, "{apiVersion: hello.example.com/v1, kind: Hello, metadata: {name: world}, spec: {text: hello}}")
//	err = c.Apply(ctx, "… kind: PersistentVolumeClaim … dataSourceRef: {apiGroup: hello.example.com, kind: Hello, name: world}")
//
// Provisioners leave such claims alone. The populator makes a second claim, the prime, in a namespace of
// its own, and a pod that writes into it. When the pod has succeeded, the volume of the prime is given
// to the user's claim: the populator changes the claimRef of the PersistentVolume. The prime is then Lost,
// and is deleted with the pod.
//
// Until then the user's claim is Pending. So no pod ever sees a volume that is filled in part, which is
// what [Rules] check. [Eager] has a bug: it gives the volume away as soon as the pod runs.
//
// Containers do not run in a simulated cluster: [Container] does the work of the populator's container.
//
// Upstream: kubernetes-csi/lib-volume-populator populator-machinery (v3), with populator pods.
package populator
