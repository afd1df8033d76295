// Package childprocess runs programs that must not outlive this one.
//
//	p, err := childprocess.Start(exec.Command("driver", "--endpoint", endpoint))
//	<-p.Done()     // it has ended
//	p.Stop()       // ends it, first by a request
//
// On Linux the kernel kills a program when this process dies; elsewhere it may outlive it. What the program
// itself has started is not followed.
package childprocess
