// Package loopdev binds files to loop devices of the kernel, lists bindings and removes them.
//
//	device, err := loopdev.Bind(ctx, "/var/lib/disk.img", "my-mark", false)
//	if err != nil {
//		return err
//	}
//	binding, err := loopdev.At(device) // binding.BackingFile is "/var/lib/disk.img"
//
// It is the only package that uses the kernel's loop driver. It keeps no state: it reads everything
// from the kernel on each call.
//
// Limits: on systems other than Linux no device is ever bound.
package loopdev
