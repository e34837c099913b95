/* Runs a fuzz target over the files of a corpus folder, without libFuzzer: the ordinary test run of its findings. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "rb");
	if (!f) {
		fprintf(stderr, "%s cannot be read\n", path);
		return 0;
	}
	uint8_t *data = malloc(1 << 20);
	size_t size = data ? fread(data, 1, 1 << 20, f) : 0;
	fclose(f);
	/* exactly as large as the input, so that a sanitizer sees what reads beyond it */
	uint8_t *exact = malloc(size ? size : 1);
	for (size_t i = 0; exact && i < size; i++)
		exact[i] = data[i];
	if (exact)
		LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	free(data);
	return 1;
}

int main(int argc, char **argv)
{
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	int count = 0;
	if (!d) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 1;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			count += replay(argv[1], e->d_name);
	closedir(d);
	printf("%d inputs\n", count);
	return count ? 0 : 1;
}
