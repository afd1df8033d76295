// Package health adds to the services of plugins/blockcsi the calls by which CSI
// 1.13 tells of health: ControllerGetVolumeHealth, ControllerListVolumeHealth,
// NodeGetVolumeHealth and NodeGetStorageHealth. They are alpha. The package stands
// apart since these symbols are not in CSI 1.12, which programs may have to build
// with that use the drivers as a library.
//
// What is told is what is found in that moment, and nothing of it is kept: what the
// pool says of a volume, whether its device is there and as large as the volume,
// whether the device can be read, what the kernel has noted of errors of its file
// system and whether that became read-only by them, whether the volume is where it is
// said to be mounted, and whether what it lies on has room to let it be filled.
// An empty answer says that none of this was found, and no more: nobody reads all of
// a volume.
//
// Reading a device can take for ever. It is waited for a moment; until it has
// answered, later calls say the same and do not read it again.
package health
