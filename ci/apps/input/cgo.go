// For apps.go: goroutines that allocate, resize and free in C, and hand blocks to each other.
package main

/*
#include <stdlib.h>
#include <string.h>
static void fill(char *p, int c, size_t n) { memset(p, c, n); }
static int first(const char *p) { return p[0]; }
static int last(const char *p, size_t n) { return p[n - 1]; }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

type block struct {
	at   unsafe.Pointer
	size int
	fill int
}

func main() {
	blocks := make(chan block, 64)
	sums := make(chan int, 8)
	var makers, takers sync.WaitGroup
	for n := 0; n < 4; n++ {
		makers.Add(1)
		go func(n int) {
			defer makers.Done()
			for i := 0; i < 20000; i++ {
				size, fill := 1+(i*37+n)%5000, (i+n)%100
				at := C.malloc(C.size_t(size))
				C.fill((*C.char)(at), C.int(fill), C.size_t(size))
				if i%5 == 0 {
					at = C.realloc(at, C.size_t(size*2))
				}
				blocks <- block{at, size, fill}
			}
		}(n)
		takers.Add(1)
		go func() {
			defer takers.Done()
			sum := 0
			for b := range blocks {
				if int(C.first((*C.char)(b.at))) != b.fill || int(C.last((*C.char)(b.at), C.size_t(b.size))) != b.fill {
					panic("a block changed")
				}
				text := C.CString(fmt.Sprint(b.size))
				sum += len(C.GoString(text))
				C.free(unsafe.Pointer(text))
				C.free(b.at)
			}
			sums <- sum
		}()
	}
	makers.Wait()
	close(blocks)
	takers.Wait()
	total := 0
	for n := 0; n < 4; n++ {
		total += <-sums
	}
	fmt.Println(total)
}
