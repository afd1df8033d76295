// Package datasourcevalidator warns of claims whose data source no populator handles.
//
//	err := server… // serves datasourcevalidator.Definition
//	err = datasourcevalidator.New(datasourcevalidator.Config{
//		Process: process, Informers: informers, Recorder: recorder,
//	})
//
// A populator registers the kind of objects from which it fills volumes in a VolumePopulator, a custom
// resource. A claim whose dataSourceRef has another kind stays Pending, because provisioners leave it to a
// populator. The controller records a warning at such a claim, once:
//
//	UnrecognizedDataSourceKind: The data source for this PVC does not match any registered VolumePopulator
//
// It writes nothing else. Claims and snapshots as sources are for the provisioner.
//
// Upstream: kubernetes-csi/volume-data-source-validator pkg/data-source-validator (v1.8).
package datasourcevalidator
