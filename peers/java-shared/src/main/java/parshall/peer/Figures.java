package parshall.peer;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;

/**
 * What the work costs inside the virtual machine, told on standard output once a second, as docs/external-systems.md has it:
 * the bytes that were allocated, the time that garbage collection took, and the size of the heap.
 */
final class Figures {
    private final com.sun.management.ThreadMXBean threads;
    /** What each thread has allocated, those that have ended included. */
    private final Map<Long, Long> allocated = new HashMap<>();

    private Figures(com.sun.management.ThreadMXBean threads) {
        this.threads = threads;
    }

    /** Begins to tell, on a thread that keeps nobody from ending. A virtual machine that does not know stays silent. */
    static void tell() {
        if (ManagementFactory.getThreadMXBean() instanceof com.sun.management.ThreadMXBean threads) {
            var teller = new Thread(new Figures(threads)::run, "figures");
            teller.setDaemon(true);
            teller.start();
        }
    }

    private void run() {
        try {
            while (true) {
                Thread.sleep(PAUSE_MILLIS);
                System.out.println(line());
                System.out.flush();
            }
        } catch (InterruptedException e) {
            // It is over.
        }
    }

    private String line() {
        long[] ids = threads.getAllThreadIds();
        long[] bytes = threads.getThreadAllocatedBytes(ids);
        for (int index = 0; index < ids.length; index++) {
            // -1 of one that has ended meanwhile.
            allocated.merge(ids[index], bytes[index], Math::max);
        }
        long all = allocated.values().stream().mapToLong(each -> Math.max(each, 0)).sum();
        long collecting = ManagementFactory.getGarbageCollectorMXBeans().stream()
                .mapToLong(GarbageCollectorMXBean::getCollectionTime)
                .sum();
        long heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getCommitted();
        return "parshall-figures {\"allocated_bytes\": " + all + ", \"collecting_us\": " + collecting * 1000
                + ", \"heap_bytes\": " + heap + "}";
    }

    private static final long PAUSE_MILLIS = 1000;
}
