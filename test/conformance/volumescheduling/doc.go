// Package volumescheduling runs upstream's integration tests of volumes and the scheduler,
// k8s.io/kubernetes test/integration/volumescheduling (v1.36), with our API server and our scheduler in place of
// upstream's. Their PersistentVolume controller is upstream's.
//
// The tests are built from upstream's files. Package testutil replaces the package of upstream's that starts the
// API server and the scheduler. As there, the API server runs without the admission plugin
// StorageObjectInUseProtection.
package volumescheduling
