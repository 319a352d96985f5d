import java.io.ByteArrayOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import org.apache.commons.net.ftp.FTP;
import org.apache.commons.net.ftp.FTPClient;

/** Sends the files of a folder as programs with Commons Net do, and compares what the server has afterwards. */
class Sync {
  static final DateTimeFormatter FORMAT = DateTimeFormatter.ofPattern("yyyyMMddHHmmss").withZone(ZoneOffset.UTC);

  public static void main(String[] args) throws Exception {
    FTPClient ftp = new FTPClient();
    ftp.setControlEncoding("UTF-8");
    ftp.connect(args[0], Integer.parseInt(args[1]));
    check(ftp.login("api", args[2]), "login");
    if (args[4].equals("passive")) ftp.enterLocalPassiveMode();
    check(ftp.setFileType(FTP.BINARY_FILE_TYPE), "type");
    try (var files = Files.list(Path.of(args[3]))) {
      for (Path path : files.sorted().toList()) sync(ftp, path);
    }
    check(ftp.logout(), "logout");
    ftp.disconnect();
  }

  static void sync(FTPClient ftp, Path path) throws Exception {
    String name = path.getFileName().toString();
    Instant modified = Files.getLastModifiedTime(path).toInstant();
    try (var input = Files.newInputStream(path)) {
      check(ftp.storeFile(name, input), "store: " + ftp.getReplyString());
    }
    check(ftp.sendSiteCommand("CHMOD 644 " + name), "chmod");
    check(ftp.setModificationTime(name, FORMAT.format(modified)), "MFMT");
    check(ftp.mdtmInstant(name).equals(modified), "MDTM");
    check(ftp.mlistFile(name).getTimestampInstant().equals(modified), "MLST");
    check(Arrays.stream(ftp.mlistDir()).anyMatch(file -> file.getName().equals(name)), "MLSD");
    var listed = Arrays.stream(ftp.listFiles()).filter(file -> file.getName().equals(name)).findFirst();
    check(listed.orElseThrow().getSize() == Files.size(path), "LIST");
    var received = new ByteArrayOutputStream();
    check(ftp.retrieveFile(name, received), "retrieve");
    check(Arrays.equals(received.toByteArray(), Files.readAllBytes(path)), "bytes");
  }

  static void check(boolean is, String what) {
    if (!is) throw new IllegalStateException(what);
  }
}
